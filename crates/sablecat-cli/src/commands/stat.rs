//! `stat`: numbers about an environment, once or again and again.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use sablecat::{Counters, DatabaseStats, Env, ErrorKind, Expiring, Holds, IndexInfo, Method, Queue};
use sablecat_papers::{Grid, thousands};
use serde_json::{Map, Value, json};

use crate::arguments::{Existing, Reading};
use crate::{Failure, Outcome, interrupt, output};

/// How long it sleeps before it asks whether it was told to stop.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// Lines between two headings of columns.
const HEAD_EVERY: u64 = 20;

/// Print statistics of an environment: its databases, pages, files and log, and what the processes that have
/// it open have done
///
/// Records, pages, bytes and fill of a database that is not small are estimates, from a sample of paths down
/// its tree.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: Existing,
    #[command(flatten)]
    reading: Reading,
    /// Only these databases
    #[arg(value_name = "DATABASE")]
    databases: Vec<String>,
    /// Print what the processes that share the environment do, as rates per second, every so many seconds
    /// until interrupted. Does not join the environment and writes nothing
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1",
          value_parser = seconds, conflicts_with_all = ["databases", "read_only"])]
    watch: Option<Duration>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is a number of seconds")?;
    if (0.01..=86_400.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("it is from 0.01 to 86400".to_owned())
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    match arguments.watch {
        Some(every) => watch(&arguments.place, every),
        None => show(arguments),
    }
}

/// What the processes that share it have done, without this process; none if no process shares it.
fn counted(place: &Existing) -> sablecat::Result<Option<Counters>> {
    Env::builder().counters(place.path())
}

fn show(Arguments { place, reading, databases, .. }: &Arguments) -> Result<Outcome, Failure> {
    // Before it joins them. What is wrong is said by opening it.
    let counters = if reading.read_only { None } else { counted(place).ok().flatten() };
    let env = place.open_to_read(reading)?;
    let mut stats = env.stats()?;
    if let Some(missing) = databases.iter().find(|name| !stats.databases.contains(name)) {
        let names = if stats.databases.is_empty() {
            "none at all".to_owned()
        } else {
            format!("only {}", stats.databases.join(", "))
        };
        return Err(format!("there is no database {missing} in {}, {names}", place.shown()).into());
    }
    let mut sizes = Vec::with_capacity(stats.databases.len());
    for (name, (method, holds)) in stats.databases.iter().zip(stats.methods.iter().zip(&stats.holds)) {
        if databases.is_empty() || databases.contains(name) {
            interrupt::check()?;
            let (name, method, size) = (name.clone(), method.clone(), size_of(&env, name));
            let unswept = (*holds == Holds::Expiring).then(|| unswept(&env, &name)).flatten();
            let numbers = matches!(holds, Holds::Queue { .. }).then(|| numbers(&env, &name)).flatten();
            let is_temporary = stats.temporary.contains(&name);
            sizes.push(Shown { name, method, holds: *holds, is_temporary, size, unswept, numbers });
        }
    }
    env.close()?;
    let mut indices = std::mem::take(&mut stats.indices);
    indices.retain(|name, _| sizes.iter().any(|one| one.name == *name));
    if place.json {
        output::json(&json!({
            "databases": sizes.iter().map(|one| &*one.name).collect::<Vec<_>>(),
            "methods": sizes.iter().map(|one| &*one.method).collect::<Vec<_>>(),
            "holds": sizes.iter().map(|one| one.holds.to_string()).collect::<Vec<_>>(),
            "temporary": sizes.iter().filter(|one| one.is_temporary).map(|one| &*one.name)
                .collect::<Vec<_>>(),
            "indices": indices.iter().map(|(name, index)| (name.clone(), output::index(index)))
                .collect::<Map<_, _>>(),
            "unswept": sizes.iter().filter_map(|one| Some((one.name.clone(), one.unswept?.into())))
                .collect::<Map<_, _>>(),
            "queues": sizes.iter().filter_map(|one| {
                let numbers = one.numbers?;
                Some((one.name.clone(), json!({ "first": numbers.first, "next": numbers.next })))
            }).collect::<Map<_, _>>(),
            "sizes": sizes.iter().map(|one| {
                (one.name.clone(), one.size.map_or(Value::Null, |size| json_of(&size)))
            }).collect::<Map<_, _>>(),
            "page_size": stats.page_size,
            "cache_bytes": stats.cache_bytes,
            "pages": stats.pages,
            "blocks": stats.blocks,
            "volume_bytes": stats.volume_bytes,
            "occupied_bytes": stats.occupied_bytes,
            "encryption": stats.encryption.as_ref().map(output::encryption),
            "volumes": stats.volumes.iter().map(|volume| json!({
                "name": volume.name,
                "path": volume.path,
                "blocks": volume.blocks,
                "bytes": volume.bytes,
                "occupied": volume.occupied,
                "compression": volume.compression.to_string(),
                "encrypted": volume.encrypted,
                "makes_holes": volume.makes_holes,
            })).collect::<Vec<_>>(),
            "log_tail": stats.log_tail.0,
            "log_written": stats.log_written.0,
            "log_durable": stats.log_durable.0,
            "checkpoint": stats.checkpoint.0,
            "counters": counters.as_ref().map(|counters| Value::Object(json_of_counters(counters))),
        }))?;
        return Ok(Outcome::Done);
    }
    let number = |number: u64| thousands(number as f64);
    let encryption = stats.encryption.map_or("none".to_owned(), |encryption| {
        format!("{}, data key {} of {}", encryption.cipher.name(), encryption.key, encryption.keys)
    });
    output::pairs([
        ("page size, bytes", number(stats.page_size)),
        ("cache, bytes", number(stats.cache_bytes)),
        ("pages in use", number(stats.pages)),
        ("blocks in use", number(stats.blocks)),
        ("volumes, bytes", number(stats.volume_bytes)),
        ("of the file systems", number(stats.occupied_bytes)),
        ("encryption", encryption),
        ("end of the log, LSN", number(stats.log_tail.0)),
        ("log written up to", number(stats.log_written.0)),
        ("log durable up to", number(stats.log_durable.0)),
        ("last checkpoint", number(stats.checkpoint.0)),
    ])?;
    output::table(&of_databases(&sizes, &indices))?;
    let columns = ["name", "blocks in use", "bytes", "occupied", "compression", "encrypted", "file"];
    let mut volumes = Grid::new("\nVolumes", columns, 0);
    for volume in &stats.volumes {
        let path = volume.path.display().to_string();
        let compression = match volume.compression {
            how if volume.makes_holes => how.to_string(),
            how => format!("{how}, but the file system does not support holes in files, so nothing is saved"),
        };
        let [blocks, bytes, occupied] = [volume.blocks, volume.bytes, volume.occupied].map(number);
        let encrypted = if volume.encrypted { "yes" } else { "no" }.to_owned();
        volumes.rows.push(vec![volume.name.clone(), blocks, bytes, occupied, compression, encrypted, path]);
    }
    output::table(&volumes)?;
    if let Some(counters) = counters {
        let mut grid =
            Grid::new(format!("\nSince {}, by all processes that had it open", counters.since), ["", ""], 1);
        grid.rows = GROWING
            .into_iter()
            .map(|(_, name, _, of)| vec![name.to_owned(), number(of(&counters))])
            .collect();
        grid.rows.push(vec!["processes".to_owned(), number(counters.processes)]);
        grid.rows.push(vec!["oldest snapshot".to_owned(), oldest(&counters)]);
        output::table(&grid)?;
    }
    Ok(Outcome::Done)
}

/// A database as it is shown.
struct Shown {
    name: String,
    method: String,
    holds: Holds,
    is_temporary: bool,
    size: Option<DatabaseStats>,
    /// Records that have expired and are not swept, if they do.
    unswept: Option<u64>,
    /// Of a queue.
    numbers: Option<Numbers>,
}

/// The numbers of a queue.
#[derive(Clone, Copy)]
struct Numbers {
    /// Of the first record, if there is one.
    first: Option<u64>,
    /// What the next record gets, unless several are appended at the same time.
    next: u64,
}

/// Which numbers the records of a queue have.
fn numbers(env: &Env, name: &str) -> Option<Numbers> {
    let look = || {
        let state = env.snapshot()?;
        let Some(database) = state.existing_database(name)? else { return Ok(None) };
        let first = Queue::of(database.clone())?.peek(&state)?.map(|(number, _)| number);
        // The last number stays there, if its record was consumed.
        let last = state.last(&database)?.and_then(|(key, _)| key.try_into().ok()).map(u64::from_be_bytes);
        Ok(Some(Numbers { first, next: last.unwrap_or(0).saturating_add(1) }))
    };
    look()
        .inspect_err(|error: &sablecat::Error| {
            eprintln!("sablecat: looking for the numbers of the queue {name:?}: {error}");
        })
        .ok()
        .flatten()
}

/// How many records have expired and are not swept.
fn unswept(env: &Env, name: &str) -> Option<u64> {
    let counted = env
        .existing_database(name)
        .and_then(|found| found.map(|database| Expiring::of(env, &database)?.unswept(env)).transpose());
    counted
        .inspect_err(|error| eprintln!("sablecat: counting the expired records of {name:?}: {error}"))
        .ok()
        .flatten()
}

/// How large a database is; none if that cannot be told: it needs a comparator, is arranged in a way that is
/// not known here, is damaged, or was removed just now.
fn size_of(env: &Env, name: &str) -> Option<DatabaseStats> {
    let size =
        env.existing_database(name).and_then(|found| found.map(|database| database.stats()).transpose());
    size.inspect_err(|error| eprintln!("sablecat: estimating the size of the database {name:?}: {error}"))
        .ok()
        .flatten()
}

/// The table of databases, each with its size, if that could be told.
fn of_databases(sizes: &[Shown], indices: &BTreeMap<String, IndexInfo>) -> Grid {
    if sizes.is_empty() {
        return Grid::new("\nDatabases: none", [], 0);
    }
    let usual = Method::default().to_string();
    let mut grid =
        Grid::new("\nDatabases", ["name", "records", "depth", "pages", "bytes used", "fill, %"], 1);
    for Shown { name, method, holds, is_temporary, size, unswept, numbers } in sizes {
        let kind = [
            is_temporary.then(|| "temporary".to_owned()),
            (*method != usual).then(|| method.clone()),
            (*holds != Holds::Records).then(|| holds.to_string()),
            numbers.map(|Numbers { first, next }| match first {
                Some(first) => format!("first {first}, next {next}"),
                None => format!("next {next}"),
            }),
            unswept
                .filter(|&unswept| unswept > 0)
                .map(|unswept| format!("{} to be swept", thousands(unswept as f64))),
            indices.get(name).map(|index| match &*index.extractor {
                by_itself if by_itself.starts_with('\0') => format!("index of {}", index.primary),
                extractor => format!("index of {} by {extractor:?}", index.primary),
            }),
        ];
        let kind: Vec<_> = kind.into_iter().flatten().collect();
        let name = if kind.is_empty() { name.clone() } else { format!("{name} ({})", kind.join("; ")) };
        let cells = match size {
            Some(size) => {
                let about = |number: u64| {
                    format!("{}{}", if size.is_exact { "" } else { "~" }, thousands(number as f64))
                };
                let fill = format!("{:.0}", size.fill() * 100.0);
                [about(size.records), size.depth.to_string(), about(size.pages), about(size.bytes), fill]
            }
            None => ["-"; 5].map(str::to_owned),
        };
        grid.rows.push([name].into_iter().chain(cells).collect());
    }
    grid
}

fn json_of(size: &DatabaseStats) -> Value {
    json!({
        "records": size.records,
        "depth": size.depth,
        "pages": size.pages,
        "bytes": size.bytes,
        "fill": size.fill(),
        "is_exact": size.is_exact,
    })
}

/// What only grows: its name in JSON, for people, and over a column; and how much it is.
type Growing = (&'static str, &'static str, &'static str, fn(&Counters) -> u64);
const GROWING: [Growing; 10] = [
    ("commits", "commits", "commits", |counters| counters.commits),
    ("conflicts", "conflicts", "conflicts", |counters| counters.conflicts),
    ("snapshots_given_up", "snapshots given up", "given up", |counters| counters.snapshots_given_up),
    ("page_hits", "pages found in the cache", "hits", |counters| counters.page_hits),
    ("page_misses", "pages read in", "misses", |counters| counters.page_misses),
    ("pages_swept", "pages written by sweeps", "swept", |counters| counters.pages_swept),
    ("checkpoints", "checkpoints", "checkpts", |counters| counters.checkpoints),
    ("pages_checkpointed", "pages written for checkpoints", "their pages", |counters| {
        counters.pages_checkpointed
    }),
    ("log_flushes", "flushes of the log", "log flushes", |counters| counters.log_flushes),
    ("log_bytes", "log, bytes", "log bytes", |counters| counters.log_bytes),
];

fn json_of_counters(counters: &Counters) -> Map<String, Value> {
    let mut members: Map<_, _> =
        GROWING.into_iter().map(|(name, _, _, of)| (name.to_owned(), of(counters).into())).collect();
    let oldest = counters
        .oldest_snapshot
        .map(|oldest| json!({ "lsn": oldest.lsn.0, "lag": oldest.lag, "pid": oldest.pid }));
    members.insert("oldest_snapshot".to_owned(), oldest.into());
    members.insert("processes".to_owned(), counters.processes.into());
    members.insert("since".to_owned(), counters.since.to_string().into());
    members
}

/// The oldest snapshot, in words.
fn oldest(counters: &Counters) -> String {
    counters.oldest_snapshot.map_or("none".to_owned(), |oldest| {
        format!(
            "LSN {}, {} bytes behind, of process {}",
            oldest.lsn,
            thousands(oldest.lag as f64),
            oldest.pid
        )
    })
}

/// Prints how often what was done in a second, again and again. It looks from outside: it joins nobody and
/// opens nothing.
fn watch(place: &Existing, every: Duration) -> Result<Outcome, Failure> {
    let (mut before, mut at) = (counted(place)?, Instant::now());
    for line in 0u64.. {
        while at.elapsed() < every {
            interrupt::check()?;
            std::thread::sleep(ASK_EVERY.min(every.saturating_sub(at.elapsed())));
        }
        interrupt::check()?;
        let now = match counted(place) {
            // Somebody has it alone for a while.
            Err(error) if error.kind() == ErrorKind::InUse => None,
            counted => counted?,
        };
        let seconds = at.elapsed().as_secs_f64();
        at = Instant::now();
        let rates = rates(before.as_ref(), now.as_ref(), seconds);
        if place.json {
            output::line(&json_of_rates(&rates, now.as_ref(), seconds).to_string())?;
        } else {
            if line.is_multiple_of(HEAD_EVERY) {
                let heads =
                    GROWING.iter().map(|(_, _, column, _)| *column).chain(["processes", "lag, bytes"]);
                output::line(&row(heads.map(str::to_owned)))?;
            }
            let (processes, lag) = now
                .as_ref()
                .map_or((0, None), |now| (now.processes, now.oldest_snapshot.map(|oldest| oldest.lag)));
            let about = [processes.to_string(), lag.map_or("-".to_owned(), |lag| thousands(lag as f64))];
            output::line(&row(rates.iter().map(|&rate| thousands(rate)).chain(about)))?;
        }
        io::stdout().flush()?;
        before = now;
    }
    Ok(Outcome::Done)
}

/// What was done in a second, between two looks. If all have left meanwhile and others have come, they began
/// anew.
fn rates(before: Option<&Counters>, now: Option<&Counters>, seconds: f64) -> [f64; GROWING.len()] {
    let before = before.filter(|before| now.is_some_and(|now| now.since == before.since));
    GROWING.map(|(_, _, _, of)| now.map_or(0, of).saturating_sub(before.map_or(0, of)) as f64 / seconds)
}

fn json_of_rates(rates: &[f64], now: Option<&Counters>, seconds: f64) -> Value {
    let rates = GROWING
        .iter()
        .zip(rates)
        .map(|((name, ..), rate)| ((*name).to_owned(), Value::from((rate * 1000.0).round() / 1000.0)));
    let of_now = now.map(json_of_counters).unwrap_or_default();
    let others = ["processes", "oldest_snapshot"]
        .map(|name| (name.to_owned(), of_now.get(name).cloned().unwrap_or(Value::Null)));
    rates.chain(others).chain([("seconds".to_owned(), seconds.into())]).collect::<Map<_, _>>().into()
}

/// A line of columns of one width, so that one can be printed before the next is known.
fn row(cells: impl Iterator<Item = String>) -> String {
    cells.map(|cell| format!("{cell:>12}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_some() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["", "x", "0", "-1", "nan", "inf", "100000"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_begin_anew_with_who_comes_after_all_have_left() {
        let env = Env::in_memory().expect("made");
        let before = env.counters();
        env.database("d").expect("created");
        let now = env.counters();
        assert!(now.commits > before.commits);
        assert_eq!(
            rates(Some(&before), Some(&now), 0.5)[0],
            2.0 * (now.commits - before.commits) as f64,
            "in half a second"
        );
        let mut earlier = now.clone();
        earlier.since.ms -= 1;
        assert_eq!(rates(Some(&earlier), Some(&now), 1.0)[0], now.commits as f64);
        assert_eq!(rates(Some(&now), None, 1.0), [0.0; GROWING.len()]);
    }
}
