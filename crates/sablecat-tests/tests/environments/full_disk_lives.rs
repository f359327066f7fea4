//! One life after another on a disk that stays full, with pages as they are and compressed.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::path::Path;
use std::sync::Arc;

use sablecat::{Compression, Env};
use sablecat_os::disk::Disk;
use sablecat_os::sim::{SimDisk, Survival};

use super::compression::{Model, builder, check, key, noise, put};

/// A disk that stays full, whatever is given back to it, through one life after another, ended in order or by
/// a kill: records that are compressed, or cannot be, have come to blocks of others before. Nobody is locked
/// out, and each life removes some.
fn live_on_a_full_disk(seed: u32, page_sizes: &[usize], hows: &[Compression]) -> Result<(), String> {
    let mut dice = noise(seed, 256).into_iter();
    let mut pick = |below: u32| {
        let (high, low) = (dice.next().unwrap(), dice.next().unwrap());
        ((u32::from(high) << 8 | u32::from(low)) * below) >> 16
    };
    let page_size = page_sizes[pick(page_sizes.len() as u32) as usize];
    let how = hows[pick(hows.len() as u32) as usize];
    let mut disk = Arc::new(SimDisk::new(1));
    let mut model = Model::new();
    let open = |disk: &Arc<SimDisk>| builder(disk).page_size(page_size).compression(how).open("env");
    let mut story = format!("seed {seed}, pages of {page_size}, {how}");
    let remove = |env: &Env, numbers: Vec<u32>, model: &mut Model| {
        let db = env.database("records").unwrap();
        for n in numbers {
            assert_eq!(db.remove(key(n)).map_err(|error| error.to_string())?, model.remove(&n).is_some());
        }
        Ok::<_, String>(())
    };
    let mut env = open(&disk).unwrap();
    for _ in 0..2 + pick(6) {
        let (from, count) = (pick(4) * 1000, 500 + pick(3000));
        let numbers = from..from + count;
        match pick(4) {
            0 => put(&env, numbers.map(|n| (n, vec![n as u8; 1000])), &mut model),
            1 | 2 => put(&env, numbers.map(|n| (n, noise(n, 1000))), &mut model),
            _ => remove(&env, numbers.collect(), &mut model)?,
        }
        match pick(6) {
            0 => {}
            1 => {
                env.close().unwrap();
                env = open(&disk).unwrap();
            }
            2 => {
                env.sync().unwrap();
                disk = Arc::new(disk.crash_as(Survival::Everything, 1));
                env = open(&disk).unwrap();
            }
            _ => drop(env.checkpoint().unwrap()),
        }
    }
    env.checkpoint().unwrap();
    let (from, count) = (pick(4000), pick(30));
    put(&env, (from..from + count).map(|n| (n, noise(n + 7, 1000))), &mut model);
    let mut first = Some(env);
    for (life, removed) in [0, 0, 0, 1, 1, 1, 10, 10, 1].into_iter().enumerate() {
        let end = pick(4);
        story += &format!("; life {life}: {removed} removed, end {end}");
        let failed = |what: &str, error: String| format!("{story}: {what}: {error}");
        let env = match first.take() {
            Some(env) => env,
            None => open(&disk).map_err(|error| failed("opening", error.to_string()))?,
        };
        check(&env, &model);
        remove(&env, model.keys().copied().take(removed).collect(), &mut model)
            .map_err(|error| failed("removing", error))?;
        let done = match end {
            0 => env.compact().map(drop),
            1 => env.checkpoint().map(drop),
            _ => Ok(()),
        };
        done.map_err(|error| failed("a checkpoint", error.to_string()))?;
        if end == 3 {
            env.sync().unwrap();
            disk = Arc::new(disk.crash_as(Survival::Everything, 1));
        } else {
            env.close().map_err(|error| failed("closing", error.to_string()))?;
        }
        disk.fill_up();
        assert_eq!(disk.free_bytes(Path::new("env")).unwrap(), 0);
    }
    disk.set_capacity(u64::MAX);
    check(&open(&disk).unwrap(), &model);
    Ok(())
}

#[test]
fn a_full_disk_locks_nobody_out_through_many_lives() {
    let page_sizes = [8192, 16384, 32768, 32768, 65536];
    let hows = [Compression::None, Compression::Lz4, Compression::zstd()];
    let live = |seed| live_on_a_full_disk(seed, &page_sizes, &hows).err();
    let failed: Vec<_> = (0..15).filter_map(live).collect();
    assert!(failed.is_empty(), "{} of 15: {}", failed.len(), failed.join("\n"));
}

/// The same of pages as they are, of all sizes: their blocks may be free, and holes since a life before, or
/// smaller than what holes are made of.
#[test]
fn a_full_disk_locks_nobody_out_although_free_blocks_are_holes() {
    let live = |seed| live_on_a_full_disk(seed, &[512, 1024, 2048, 4096, 8192], &[Compression::None]).err();
    let failed: Vec<_> = (0..40).filter_map(live).collect();
    assert!(failed.is_empty(), "{} of 40: {}", failed.len(), failed.join("\n"));
}
