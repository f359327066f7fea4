//! Encrypted environments by the command.

use std::fs;
use std::path::Path;

use crate::support::Scratch;

const MARKER: &[u8] = b"plain-as-day";

/// Whether the file in a directory that is not the key has the marker in it.
fn is_in_the_clear(directory: &Path) -> bool {
    let file = fs::read(directory.join("sablecat.db")).expect("read");
    file.windows(MARKER.len()).any(|window| window == MARKER)
}

#[test]
fn an_environment_is_made_with_a_key_used_with_it_and_copied() {
    let scratch = Scratch::new("encryption");
    let done = |arguments: &str| {
        let answer = scratch.run(arguments);
        assert_eq!((answer.code, answer.err.as_str()), (0, ""), "{arguments}");
        answer.out
    };
    let refused = |arguments: &str, why: &str| {
        let answer = scratch.run(arguments);
        assert!(answer.code == 2 && answer.err.contains(why), "{arguments}: {}", answer.err);
    };
    done("keygen key");
    done("keygen other");
    refused("keygen key", "exists already");
    done("put env a plain-as-day --key-file key");
    assert_eq!(done("get env a --key-file key"), "plain-as-day");
    refused("get env a", "no key was given");
    refused("get env a --key-file other", "is not its key");
    refused("get env a --key-file env/sablecat.db", "64 hexadecimal digits");
    refused("get env a --key-variable SABLECAT_NO_SUCH", "no variable");
    let digits = fs::read_to_string(scratch.path().join("key")).expect("read");
    let by_variable =
        scratch.run_with("get env a --key-variable KEY", b"", &[("KEY", Path::new(digits.trim()))]);
    assert_eq!((by_variable.code, by_variable.out.as_str()), (0, "plain-as-day"));
    assert!(!is_in_the_clear(&scratch.path().join("env")));

    let shown = scratch.json("keys env --rotate --anew --key-file key --json");
    assert_eq!((&shown["encryption"]["key"], &shown["older"]), (&2.into(), &0.into()), "{shown}");
    let stat = scratch.json("stat env --key-file key --json");
    assert_eq!(stat["encryption"]["cipher"], "AES-256-GCM");
    assert!(done("stat env --key-file key").contains("AES-256-GCM, data key 2 of 2"));
    assert_eq!(scratch.json("verify env --key-file key --json")["problems"], serde_json::json!([]));
    done("keys env --key-file key --to-key-file other");
    refused("get env a --key-file key", "is not its key");

    done("backup env copy --key-file other");
    refused("get copy a", "no key was given");
    assert_eq!(done("get copy a --key-file other"), "plain-as-day");
    assert!(!is_in_the_clear(&scratch.path().join("copy")));
    refused("restore copy new", "no key was given");
    done("restore copy new --key-file other --to-key-file key");
    assert_eq!(done("get new a --key-file key"), "plain-as-day");
    done("restore copy plain --key-file other --unencrypted");
    assert_eq!(done("get plain a"), "plain-as-day");
    assert!(is_in_the_clear(&scratch.path().join("plain")));
    refused("get plain a --key-file key", "is not encrypted");
    done("backup plain sealed --to-key-file key");
    assert!(!is_in_the_clear(&scratch.path().join("sealed")));
    assert!(done("keys plain").contains("not encrypted"));
    done("put chacha a b --key-file key --cipher chacha20-poly1305");
    assert_eq!(
        scratch.json("stat chacha --key-file key --json")["encryption"]["cipher"],
        "ChaCha20-Poly1305"
    );

    let add = "--volume tiles=tiles.db --unencrypted-volume tiles --place tiles=tiles";
    done(&format!("put chacha t plain-as-day --db tiles --key-file key {add}"));
    let volumes = scratch.json("stat chacha --key-file key --json")["volumes"].take();
    assert_eq!((&volumes[0]["encrypted"], &volumes[1]["encrypted"]), (&true.into(), &false.into()));
    refused("put chacha a b --key-file key --unencrypted-volume main", "always encrypted");
    assert!(!is_in_the_clear(&scratch.path().join("chacha")));
    let tiles = fs::read(scratch.path().join("chacha/tiles.db")).expect("read");
    assert!(tiles.windows(MARKER.len()).any(|window| window == MARKER));
}
