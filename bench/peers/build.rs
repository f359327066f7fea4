//! Finds the peers' libraries, compiles the adapters of those that are there, and tells the program about the
//! rest. Peers that are crates are always there: cargo brings them along.
//!
//! A library counts as found when a three-line program that includes its header and calls one function of it
//! can be compiled and linked. What is found and what is not goes into `systems.rs`, which src/system.rs
//! includes.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

/// A crate, which cargo has brought along, and the systems of its adapter in src/rust.
struct Crate {
    adapter: &'static str,
    systems: &'static [(&'static str, &'static str)],
}

const CRATES: &[Crate] = &[
    Crate { adapter: "redb", systems: &[("redb", "redb::REDB"), ("redb-dups", "redb::REDB_DUPS")] },
    Crate { adapter: "fjall", systems: &[("fjall", "fjall::FJALL")] },
];

/// Why an adapter that could be built is not.
const LEFT_OUT: &str = "left out by SABLECAT_PEERS_WITHOUT";

/// A library, the adapter that needs it, and the systems which that adapter provides.
struct Library {
    adapter: &'static str,
    systems: &'static [(&'static str, &'static str)],
    package: &'static str,
    link: &'static [&'static str],
    probe: &'static str,
}

const LIBRARIES: &[Library] = &[
    Library {
        adapter: "bdb",
        systems: &[("bdb", "peer_bdb"), ("bdb-hash", "peer_bdb_hash"), ("bdb-queue", "peer_bdb_queue")],
        package: "libdb5.3-dev",
        link: &["db-5.3"],
        probe: "#include <db.h>\n#if DB_VERSION_MAJOR != 5\n#error not 5.x\n#endif\n\
                int main(void) { return db_version(0, 0, 0) == 0; }",
    },
    Library {
        adapter: "lmdb",
        systems: &[
            ("lmdb", "peer_lmdb"),
            ("lmdb-writemap", "peer_lmdb_writemap"),
            ("lmdb-dups", "peer_lmdb_dups"),
        ],
        package: "liblmdb-dev",
        link: &["lmdb"],
        probe: "#include <lmdb.h>\nint main(void) { return mdb_version(0, 0, 0) == 0; }",
    },
    Library {
        adapter: "tkrzw",
        systems: &[("tkrzw-hash", "peer_tkrzw_hash")],
        package: "libtkrzw-dev",
        link: &["tkrzw"],
        probe: "#include <tkrzw_langc.h>\nint main(void) { return tkrzw_get_last_status().code; }",
    },
    Library {
        adapter: "leveldb",
        systems: &[("leveldb", "peer_leveldb")],
        package: "libleveldb-dev",
        link: &["leveldb"],
        probe: "#include <leveldb/c.h>\nint main(void) { return leveldb_major_version(); }",
    },
    Library {
        adapter: "rocksdb",
        systems: &[("rocksdb", "peer_rocksdb")],
        package: "librocksdb-dev",
        link: &["rocksdb"],
        probe: "#include <rocksdb/c.h>\nint main(void) { return rocksdb_options_create() == 0; }",
    },
    Library {
        adapter: "wiredtiger",
        systems: &[("wiredtiger", "peer_wiredtiger")],
        package: "libwiredtiger-dev",
        link: &["wiredtiger"],
        probe: "#include <wiredtiger.h>\nint main(void) { return wiredtiger_version(0, 0, 0) == 0; }",
    },
    Library {
        adapter: "sqlite",
        systems: &[("sqlite", "peer_sqlite")],
        package: "libsqlite3-dev",
        link: &["sqlite3", "pthread"],
        probe: "#include <sqlite3.h>\nint main(void) { return sqlite3_libversion() == 0; }",
    },
    Library {
        adapter: "device",
        systems: &[("device", "peer_device")],
        package: "the C library",
        link: &[],
        probe: "#include <fcntl.h>\nint main(void) { return 0; }",
    },
];

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/c");
    println!("cargo::rerun-if-env-changed=SABLECAT_PEERS_WITHOUT");
    println!("cargo::rerun-if-changed=Cargo.lock");
    let without = env::var("SABLECAT_PEERS_WITHOUT").unwrap_or_default();
    let is_left_out = |adapter| without.split(',').any(|name| name == adapter);

    let mut build = adapters();
    build.file("src/c/probe.c");
    let (mut statics, mut found, mut skipped) = (String::new(), String::new(), String::new());
    for library in LIBRARIES {
        let reason =
            if is_left_out(library.adapter) { Some(LEFT_OUT.to_owned()) } else { missing(library, &out) };
        for (name, symbol) in library.systems {
            if let Some(reason) = &reason {
                println!("cargo::warning=skipped: {name}: {reason}");
                writeln!(skipped, "    ({name:?}, {reason:?}),").expect("a String takes all");
            } else {
                writeln!(statics, "    static {symbol}: RawPeer;").expect("a String takes all");
                // SAFETY is argued where the generated file is included.
                writeln!(found, "    ({name:?}, &InC(unsafe {{ &{symbol} }})),").expect("a String takes all");
            }
        }
        if reason.is_none() {
            build.file(format!("src/c/{}.c", library.adapter));
        }
    }
    for Crate { adapter, systems } in CRATES {
        println!("cargo::rustc-check-cfg=cfg(peer_{adapter})");
        println!("cargo::rustc-env={}_VERSION={}", adapter.to_uppercase(), locked_version(adapter));
        if is_left_out(adapter) {
            systems.iter().for_each(|(name, _)| {
                writeln!(skipped, "    ({name:?}, {LEFT_OUT:?}),").expect("a String takes all");
            });
            continue;
        }
        println!("cargo::rustc-cfg=peer_{adapter}");
        systems.iter().for_each(|(name, path)| {
            writeln!(found, "    ({name:?}, &crate::rust::{path}),").expect("a String takes all");
        });
    }
    build.compile("sablecat_peers_adapters");
    // After the adapters, since a linker that drops what nobody has asked for yet goes from left to right.
    for library in LIBRARIES.iter().filter(|library| !skipped.contains(library.systems[0].0)) {
        for link in library.link {
            println!("cargo::rustc-link-lib={link}");
        }
    }
    let text = format!(
        "unsafe extern \"C\" {{\n{statics}}}\n\n\
         pub(crate) static FOUND: &[(&str, &dyn Peer)] = &[\n{found}];\n\n\
         pub(crate) static SKIPPED: &[(&str, &str)] = &[\n{skipped}];\n"
    );
    fs::write(out.join("systems.rs"), text).expect("OUT_DIR can be written");
}

/// The version of a crate that cargo builds, which crates do not tell themselves.
fn locked_version(name: &str) -> String {
    let lock = fs::read_to_string("Cargo.lock").unwrap_or_default();
    let mut lines = lock.lines().skip_while(|line| *line != format!("name = {name:?}"));
    let version = lines.nth(1).and_then(|line| line.strip_prefix("version = "));
    version.map_or("unknown", |version| version.trim_matches('"')).to_owned()
}

/// The compiler as the adapters use it; optimised in every profile, since a slow loop would measure itself.
fn adapters() -> cc::Build {
    let mut build = cc::Build::new();
    build.std("gnu11").opt_level(2).warnings(true).extra_warnings(true);
    if let Some(version) = rocksdb_version() {
        build.define("ROCKSDB_VERSION", format!("{version:?}").as_str());
    } else {
        build.define("ROCKSDB_VERSION", "\"unknown\"");
    }
    build
}

/// Why a library cannot be used, or `None` when it can.
fn missing(library: &Library, out: &Path) -> Option<String> {
    let source = out.join(format!("find_{}.c", library.adapter));
    let program = out.join(format!("find_{}", library.adapter));
    fs::write(&source, library.probe).expect("OUT_DIR can be written");
    let mut command: Command = cc::Build::new().get_compiler().to_command();
    command.arg(&source).arg("-o").arg(&program).args(library.link.iter().map(|link| format!("-l{link}")));
    let built = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    match built {
        Ok(status) if status.success() => None,
        Ok(_) => Some(format!("its header or library is not here (Debian: {})", library.package)),
        Err(error) => Some(format!("no C compiler: {error}")),
    }
}

/// RocksDB tells its version in a header that only C++ can include.
fn rocksdb_version() -> Option<String> {
    let places = env::var("CPATH").unwrap_or_default() + ":/usr/local/include:/usr/include";
    let header = places
        .split(':')
        .find_map(|place| fs::read_to_string(Path::new(place).join("rocksdb/version.h")).ok())?;
    let number = |name: &str| {
        header.lines().find_map(|line| {
            line.strip_prefix("#define ")?.trim().strip_prefix(name).map(|n| n.trim().to_owned())
        })
    };
    Some(format!("{}.{}.{}", number("ROCKSDB_MAJOR")?, number("ROCKSDB_MINOR")?, number("ROCKSDB_PATCH")?))
}
