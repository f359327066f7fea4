//! What compression costs and saves, on the machine's own files. Not a test: `cargo test --release -p
//! sablecat --features lz4,zstd --test environments compression_cost -- --ignored --nocapture`.
//!
//! The data are this repository's own sources and documents, cut into records of 200 to 2000 bytes, stored in
//! the order of their keys' hashes. `SABLECAT_COST_BYTES` says how much of it, `SABLECAT_COST_DIR` where.

#![allow(clippy::unwrap_used, reason = "it measures")]

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;

use sablecat::{Builder, Compression, Durability, Env};

const ROUNDS: usize = 7;
const LOOKS: u64 = 300_000;

fn corpus() -> Vec<u8> {
    fn gather(directory: &Path, into: &mut Vec<u8>) {
        let mut entries: Vec<_> =
            std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        for path in entries {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                if name != "target" && !name.starts_with('.') {
                    gather(&path, into);
                }
            } else if name.ends_with(".rs") || name.ends_with(".md") {
                into.extend(std::fs::read(&path).unwrap());
            }
        }
    }
    let mut bytes = Vec::new();
    gather(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), &mut bytes);
    bytes
}

fn mixed(n: u64) -> u64 {
    let mut n = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    n ^ n >> 31
}

/// Records that come to about so many bytes: of the corpus again and again, cut elsewhere each time.
fn records(corpus: &[u8], bytes: usize) -> Vec<(u64, &[u8])> {
    let (mut records, mut at, mut sum) = (Vec::new(), 0, 0);
    while sum < bytes {
        let n = records.len() as u64;
        let len = 200 + (mixed(n) % 1801) as usize;
        if at + len > corpus.len() {
            at = (mixed(n) % 300) as usize;
        }
        records.push((mixed(n ^ 7), &corpus[at..at + len]));
        at += len;
        sum += len;
    }
    records
}

struct Case {
    name: String,
    path: PathBuf,
    page_size: usize,
    how: Compression,
}

impl Case {
    fn builder(&self) -> Builder {
        Env::builder()
            .page_size(self.page_size)
            .compression(self.how)
            .durability(Durability::NoSync)
            .background(false)
    }

    fn open(&self, cache: u64) -> Env {
        self.builder().cache_size(cache).open(&self.path).unwrap()
    }
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

/// Nanoseconds of a random get.
fn gets(env: &Env, keys: u64, looks: u64, from: u64) -> f64 {
    let db = env.database("records").unwrap();
    let began = Instant::now();
    for n in 0..looks {
        let key = mixed((mixed(n + from) % keys) ^ 7).to_be_bytes();
        assert!(black_box(db.get(key).unwrap()).is_some());
    }
    began.elapsed().as_nanos() as f64 / looks as f64
}

#[test]
#[ignore = "it measures"]
fn measure() {
    let bytes = std::env::var("SABLECAT_COST_BYTES").map_or(64 << 20, |bytes| bytes.parse().unwrap());
    let place = std::env::var("SABLECAT_COST_DIR").map_or_else(|_| std::env::temp_dir(), PathBuf::from);
    let place = place.join(format!("sablecat-cost-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&place);
    std::fs::create_dir_all(&place).unwrap();
    let corpus = corpus();
    let records = records(&corpus, bytes);
    println!(
        "{} records of {} bytes of text",
        records.len(),
        records.iter().map(|r| r.1.len()).sum::<usize>()
    );
    let mut cases = Vec::new();
    for page_size in [16384, 32768, 65536] {
        for how in [Compression::None, Compression::Lz4, Compression::zstd()] {
            let name = format!("{how} {} KiB", page_size >> 10);
            cases.push(Case { path: place.join(&name), name, page_size, how });
        }
    }
    println!("on disk, MB: case, file, occupied, of uncompressed; s to load and close");
    let mut plain = 0;
    for case in &cases {
        let began = Instant::now();
        let env = case.open(256 << 20);
        let db = env.database("records").unwrap();
        for (key, value) in &records {
            db.insert(key.to_be_bytes(), value).unwrap();
        }
        drop(db);
        env.close().unwrap();
        let took = began.elapsed().as_secs_f64();
        let stats = case.builder().read_only(true).open(&case.path).unwrap().stats().unwrap();
        if case.how == Compression::None {
            plain = stats.occupied_bytes;
        }
        println!(
            "{:14} {:8.1} {:8.1} {:6.3} {took:8.2}",
            case.name,
            stats.volume_bytes as f64 / 1e6,
            stats.occupied_bytes as f64 / 1e6,
            stats.occupied_bytes as f64 / plain as f64,
        );
    }
    // In the cache: all are open at once, and looked at in turns.
    let envs: Vec<_> = cases.iter().map(|case| case.open(512 << 20)).collect();
    let keys = records.len() as u64;
    envs.iter().for_each(|env| _ = gets(env, keys, 2 * keys, 0));
    let mut taken = vec![Vec::new(); cases.len()];
    for round in 0..ROUNDS as u64 {
        envs.iter()
            .zip(&mut taken)
            .for_each(|(env, taken)| taken.push(gets(env, keys, LOOKS, round * LOOKS)));
    }
    println!("in the cache: ns a random get");
    for (case, taken) in cases.iter().zip(taken) {
        println!("{:14} {:8.0}", case.name, median(taken));
    }
    // A checkpoint of changes all over.
    println!("a checkpoint of 3000 records changed all over: ms, pages, us a page");
    let mut taken = vec![Vec::new(); cases.len()];
    let mut pages = vec![0; cases.len()];
    for round in 0..ROUNDS {
        for (n, env) in envs.iter().enumerate() {
            let db = env.database("records").unwrap();
            for change in 0..3000 {
                let at = mixed(change + 5000 * round as u64) % keys;
                let (key, value) = records[at as usize];
                db.insert(key.to_be_bytes(), value).unwrap();
            }
            let began = Instant::now();
            let report = env.checkpoint().unwrap();
            taken[n].push(began.elapsed().as_secs_f64() * 1e3);
            pages[n] = report.written;
        }
    }
    for ((case, taken), pages) in cases.iter().zip(taken).zip(pages) {
        let ms = median(taken);
        println!("{:14} {ms:8.1} {pages:6} {:8.1}", case.name, ms * 1e3 / pages as f64);
    }
    envs.into_iter().for_each(|env| env.close().unwrap());
    // Nearly nothing in the cache: by the page cache, and around it.
    for direct in [false, true] {
        let envs: Vec<_> = cases
            .iter()
            .map(|case| case.builder().direct_io(direct).cache_size(0).open(&case.path).unwrap())
            .collect();
        envs.iter().for_each(|env| _ = gets(env, keys, 2000, 0));
        let mut taken = vec![Vec::new(); cases.len()];
        for round in 0..ROUNDS as u64 {
            envs.iter().zip(&mut taken).for_each(|(env, taken)| {
                let before = env.counters().page_misses;
                let looks = if direct { 1000 } else { 4000 };
                let ns = gets(env, keys, looks, 9_000_000 + round * looks);
                let misses = (env.counters().page_misses - before) as f64;
                taken.push(ns * looks as f64 / misses / 1e3);
            });
        }
        println!(
            "not in the cache, {}: us a page read in",
            if direct { "direct" } else { "from the page cache" }
        );
        for (case, taken) in cases.iter().zip(taken) {
            println!("{:14} {:8.1}", case.name, median(taken));
        }
        envs.into_iter().for_each(|env| env.close().unwrap());
    }
    std::fs::remove_dir_all(place).unwrap();
}
