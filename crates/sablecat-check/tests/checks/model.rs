//! Every operation against the model, and one sequence of steps under many settings.

use sablecat::{Cipher, Compression, Durability};
use sablecat_check::dice::Dice;
use sablecat_check::model::Model;
use sablecat_check::setting::{DIRECTORY, Setting};
use sablecat_check::step::{RUNGS, Shape, Step};
use sablecat_check::{alike, seeds, store};
use sablecat_os::sim::SimDisk;

#[test]
fn the_engine_answers_as_the_model_does() {
    seeds::all("model", 0..250);
}

fn settings() -> Vec<Setting> {
    let mut settings = Vec::new();
    for page_size in [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536] {
        for cache in [1 << 20, 64 << 20] {
            for durability in RUNGS {
                settings.push(Setting {
                    page_size,
                    trailer: 0,
                    cipher: None,
                    compression: Compression::None,
                    cache,
                    durability,
                    log_buffer: 1 << 20,
                    log_segment: 1 << 20,
                    journal: None,
                    sync_io: false,
                    volumes: 0,
                });
            }
        }
    }
    settings.push(Setting {
        page_size: 4096,
        trailer: 0,
        cipher: None,
        compression: Compression::None,
        cache: 1 << 20,
        durability: Durability::Sync,
        log_buffer: 1 << 18,
        log_segment: 65536,
        journal: None,
        sync_io: false,
        volumes: 0,
    });
    for page_size in [512, 4096, 65536] {
        for volumes in [0, 2] {
            settings.push(Setting {
                log_buffer: 1 << 20,
                volumes,
                ..Setting::small(page_size, Durability::Sync)
            });
        }
    }
    for page_size in [1024, 4096, 65536] {
        for (trailer, volumes) in [(8, 0), (32, 2)] {
            settings.push(Setting {
                trailer,
                log_buffer: 1 << 20,
                volumes,
                ..Setting::small(page_size, Durability::Sync)
            });
        }
    }
    for compression in [Compression::Lz4, Compression::zstd()] {
        for (page_size, volumes) in [(8192, 2), (32768, 0)] {
            settings.push(Setting {
                compression,
                log_buffer: 1 << 20,
                volumes,
                ..Setting::small(page_size, Durability::Sync)
            });
        }
    }
    for cipher in [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
        for (page_size, volumes) in [(1024, 2), (4096, 0)] {
            settings.push(Setting {
                trailer: 32,
                cipher: Some(cipher),
                log_buffer: 1 << 20,
                volumes,
                ..Setting::small(page_size, Durability::Sync)
            });
        }
    }
    settings
}

#[test]
fn one_sequence_of_steps_ends_alike_under_every_setting() {
    for seed in 0..2 {
        let mut dice = Dice::new(seed);
        let steps = Shape { keys: 800, stem: 112, value_max: 3000, batch_max: 60, ..Shape::large() }
            .steps(&mut dice, 200);
        let mut ends = Vec::new();
        for setting in settings() {
            let disk = SimDisk::new(seed);
            let mut model = Model::default();
            alike::play(&steps, &mut model, || setting.builder_on(&disk).open(DIRECTORY))
                .unwrap_or_else(|wrong| panic!("{setting:?}: {wrong}"));
            ends.push(model);
        }
        assert!(ends.windows(2).all(|pair| pair[0] == pair[1]));
    }
}

#[test]
fn one_sequence_of_steps_ends_alike_in_memory() {
    for seed in 0..4 {
        let steps = Shape { stem: 496, reopen: false, ..Shape::large() }.steps(&mut Dice::new(seed), 200);
        for page_size in [512, 4096, 65536] {
            let setting = Setting { log_buffer: 1 << 20, ..Setting::small(page_size, Durability::Sync) };
            alike::play(&steps, &mut Model::default(), || setting.in_memory())
                .unwrap_or_else(|wrong| panic!("{setting:?}: {wrong}"));
        }
    }
}

#[test]
fn a_data_store_answers_as_the_model_does_under_every_setting() {
    let shape = Shape { names: vec!["a", "b", "c"], stem: 112, reopen: false, ..Shape::large() };
    for seed in 0..2 {
        let steps: Vec<Step> =
            shape.steps(&mut Dice::new(seed), 400).into_iter().filter_map(store::plain).collect();
        for setting in settings().into_iter().filter(|setting| setting.durability == Durability::Sync) {
            let disk = SimDisk::new(seed);
            let mut model = Model::default();
            let mut store = setting.builder_on(&disk).open_data_store(DIRECTORY).expect("a fresh disk");
            for step in &steps {
                let before = model.clone();
                let expected = model.apply(step);
                assert_eq!(
                    store::apply(&mut store, step, &before).expect("nothing goes wrong"),
                    expected,
                    "{setting:?}: {step:?}"
                );
            }
            assert_eq!(store::state(&mut store).expect("nothing goes wrong"), model);
            assert_eq!(store.verify(&mut |_| {}).expect("nothing goes wrong").problems, Vec::<String>::new());
            store.close().expect("nothing goes wrong");
            let mut store = setting.builder_on(&disk).open_data_store(DIRECTORY).expect("it was closed");
            assert_eq!(store::state(&mut store).expect("nothing goes wrong"), model);
        }
    }
}
