//! Checks of sablecat from outside, through its public API alone and a disk that breaks on request.
//!
//! ```text
//! dice.rs       chance from a seed
//! records.rs    records of one database, and their order
//! answer.rs     what steps answer
//! walk.rs       cursors: modelled, moved
//! step.rs       everything a program may ask, as data, made from a seed
//! model.rs      what must be answered
//! engine.rs     what is answered
//! alike.rs      both side by side
//! setting.rs    ways to open an environment
//! method.rs     by which access method
//! crash.rs      power failures after any call
//! backward.rs   going back to earlier states
//! store.rs      the same for the Data Store
//! faults.rs     calls that fail
//! shared.rs     power failures and failing calls where several processes share an environment
//! deaths.rs     processes killed before any call, and calls that fail while that is mended
//! fuzz.rs       the engine's own bytes, mutated
//! damage.rs     files that are changed behind the engine's back
//! lies.rs       writes that get lost, or elsewhere, without a word
//! history/      what concurrent transactions saw, and whether they may have
//! order.rs      whether long histories of calls have an order that agrees with the clock
//! storm/        processes that share an environment, and are killed
//! steps/        a process that dies after any instruction
//! operator.rs   what operators do to files and memory of killed processes
//! course.rs     where a long run is, and when it ends
//! seeds.rs      many seeds, and how to see one again
//! ```
//!
//! Every check takes a seed and says what is wrong, or nothing. The tests run a fixed number of seeds;
//! `cargo run --release -p sablecat-check -- <check> --seeds N --from S` runs others, and with
//! `--method hash` over hash tables, or `--method flat` over an access method that is there for nothing else.

pub mod alike;
pub mod answer;
pub mod backward;
pub mod course;
pub mod crash;
pub mod damage;
pub mod deaths;
pub mod dice;
pub mod engine;
pub mod faults;
pub mod fuzz;
pub mod history;
pub mod lies;
pub mod method;
pub mod model;
pub mod operator;
pub mod order;
pub mod records;
pub mod seeds;
pub mod setting;
pub mod shared;
pub mod step;
pub mod steps;
pub mod store;
pub mod stored;
pub mod storm;
pub mod walk;

use alike::Wrong;
use dice::Dice;
use setting::Setting;
use step::Shape;

/// Random steps under a random setting, in memory or on a simulated disk, against the model.
///
/// # Errors
/// Whatever is not as the model says.
pub fn model_check(seed: u64) -> Result<(), Wrong> {
    let mut dice = Dice::new(seed);
    let mut setting = Setting::any_journaled(&mut dice);
    setting.log_buffer = 1 << 20;
    let small = dice.percent(70);
    if !small {
        // A batch's pages must fit the cache.
        setting.cache = 4 << 20;
    }
    let mut shape = if small { Shape { snapshots: true, ..Shape::small() } } else { Shape::large() };
    (shape.key_max, shape.stem) = (setting.stem(), setting.stem());
    let in_memory = dice.percent(30);
    if in_memory {
        setting.journal = None;
        setting.volumes = 0;
    }
    shape.reopen = !in_memory;
    let steps = shape.steps(&mut dice, if small { 300 } else { 150 });
    let disk = sablecat_os::sim::SimDisk::new(seed);
    let open =
        || if in_memory { setting.in_memory() } else { setting.builder_on(&disk).open(setting::DIRECTORY) };
    alike::play(&steps, &mut model::Model::default(), open)
        .map_err(|wrong| format!("{setting:?}, in memory: {in_memory}: {wrong}"))
}
