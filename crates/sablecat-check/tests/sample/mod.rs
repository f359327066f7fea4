//! The sample of all checks that is run over each access method beside the B+tree.

/// The tests, over a method, which is chosen by this name on the command line.
macro_rules! sample {
    ($method:expr, $name:literal) => {
        /// Over the method, with everything else in this process.
        fn all(name: &str, count: u64) {
            sablecat_check::method::choose($method);
            sablecat_check::seeds::all(name, 0..count);
        }

        fn command(words: &[&str]) {
            const NOT_PERMITTED: i32 = 3;
            let out = std::process::Command::new(env!("CARGO_BIN_EXE_sablecat-check"))
                .args(words)
                .args(["--method", $name])
                .output()
                .expect("started");
            let said = String::from_utf8_lossy(&out.stdout);
            let is_well = out.status.success() || out.status.code() == Some(NOT_PERMITTED);
            assert!(is_well, "{words:?}: {said}{}", String::from_utf8_lossy(&out.stderr));
        }

        #[test]
        fn the_engine_answers_as_the_model_does() {
            all("model", 25);
        }

        #[test]
        fn a_crash_anywhere_keeps_what_was_promised() {
            all("crash", 40);
            all("crash-shared", 5);
        }

        #[test]
        fn a_data_store_is_whole_as_of_its_last_checkpoint() {
            all("store", 25);
        }

        #[test]
        fn going_back_goes_to_what_was() {
            all("backward", 10);
        }

        #[test]
        fn a_fault_loses_nothing_and_says_so() {
            all("faults", 10);
            all("faults-shared", 2);
            for seed in 0..2 {
                sablecat_check::deaths::some(seed).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
                sablecat_check::faults::small_disk(seed)
                    .unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
            }
        }

        #[test]
        fn damage_is_found_and_harms_nothing_else() {
            all("damage", 20);
            all("lies", 5);
        }

        #[test]
        fn histories_of_concurrent_transactions_are_as_their_level_promises() {
            all("histories", 5);
        }

        #[test]
        fn processes_killed_anywhere_lose_nothing() {
            command(&["storm", "--commits", "500", "--seed", "1"]);
            command(&["storm", "--commits", "300", "--seed", "3", "--faults", "5000"]);
        }

        #[test]
        fn dying_at_any_system_call_leaves_nothing_in_doubt() {
            for operation in ["split", "merge", "commit", "commit-large", "remove-range", "load"] {
                command(&["steps", "--operation", operation, "--by", "calls", "--every", "24"]);
            }
            command(&["steps", "--operation", "clear-large", "--by", "calls", "--every", "120"]);
        }
    };
}

pub(crate) use sample;
