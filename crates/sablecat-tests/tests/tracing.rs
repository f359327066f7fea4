//! What a subscriber of `tracing` hears.
//!
//! The other process is this test program itself, started again with `SABLECAT_TEST_DIR` set, so that it runs
//! [`waiter`] alone.

use std::fmt::{Debug, Write as _};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use sablecat::Env;
use sablecat_tests::Place;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Writes down what it is told.
#[derive(Clone, Default)]
struct Listener {
    heard: Arc<Mutex<Vec<String>>>,
    spans: Arc<AtomicU64>,
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).expect("a String takes all");
    }
}

impl Listener {
    fn note(&self, line: String) {
        self.heard.lock().expect("whole").push(line);
    }

    /// What it was told since this was asked last.
    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut *self.heard.lock().expect("whole"))
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("sablecat")
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields(String::new());
        span.record(&mut fields);
        self.note(format!("begin {}{}", span.metadata().name(), fields.0));
        Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed) + 1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        self.note(format!("{}{}", event.metadata().level(), fields.0));
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {
        self.note("end".to_owned());
    }
}

/// Has a snapshot, says so, and waits to be killed.
#[test]
#[ignore = "what the other process of a test does"]
fn waiter() {
    let Ok(base) = std::env::var("SABLECAT_TEST_DIR") else { return };
    let base = PathBuf::from(base);
    let env = Env::builder()
        .shared(true)
        .region_directory(base.join("region"))
        .open(base.join("env"))
        .expect("opened");
    let snapshot = env.snapshot().expect("begun");
    assert!(snapshot.databases().is_ok());
    println!("\nready");
    loop {
        std::thread::park();
    }
}

fn position(heard: &[String], of: &str) -> usize {
    heard
        .iter()
        .position(|line| line.contains(of))
        .unwrap_or_else(|| panic!("{of:?} is not among {heard:#?}"))
}

#[test]
fn who_listens_hears_of_openings_checkpoints_conflicts_and_the_dead() {
    let (listener, place) = (Listener::default(), Place::new("tracing"));
    let _listening = tracing::subscriber::set_default(listener.clone());
    let env = place.open().expect("created");
    let heard = listener.heard();
    assert!(
        heard[0].starts_with("begin opening directory=") && heard.last().is_some_and(|last| last == "end"),
        "{heard:#?}"
    );
    assert!(
        heard[position(&heard, "environment opened")]
            .contains("INFO message=environment opened created=true joined=false"),
        "{heard:#?}"
    );

    let records = env.database("records").expect("created");
    records.insert("key", "value").expect("committed");
    assert_eq!(listener.heard(), Vec::<String>::new(), "nothing is told of what is usual");
    let report = env.checkpoint().expect("written");
    let durable = format!(
        "INFO message=checkpoint durable lsn={} pages={} written={} moved=0",
        report.lsn, report.pages, report.written
    );
    assert_eq!(listener.heard(), ["begin checkpoint", &durable, "end"]);

    let mut loser = env.begin().expect("begun");
    loser.get(&records, "key").expect("read");
    loser.insert(&records, "other", "value").expect("set");
    records.insert("key", "newer").expect("committed");
    assert!(loser.commit().is_err());
    let heard = listener.heard();
    assert!(
        heard.len() == 1 && heard[0].starts_with("DEBUG message=conflict error=another transaction"),
        "{heard:#?}"
    );

    let mut other = Command::new(std::env::current_exe().expect("known"))
        .args(["--exact", "waiter", "--ignored", "--nocapture", "--test-threads", "1"])
        .env("SABLECAT_TEST_DIR", &place.base)
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let mut out = BufReader::new(other.stdout.take().expect("piped")).lines();
    while out.next().expect("it lives").expect("read") != "ready" {}
    let pid = other.id();
    other.kill().and_then(|()| other.wait()).expect("killed");
    while env.processes().len() > 1 {
        env.keep_house().expect("kept");
    }
    let heard = listener.heard();
    let mended: Vec<_> =
        heard.iter().filter(|line| line.starts_with("WARN message=dead process mended")).collect();
    assert!(mended.len() == 1 && mended[0].ends_with(&format!("pid={pid}")), "{heard:#?}");
}

#[test]
fn who_listens_hears_of_recoveries_and_of_want_of_cache() {
    let (listener, place) = (Listener::default(), Place::new("tracing-recovery"));
    let _listening = tracing::subscriber::set_default(listener.clone());
    let env = place.open().expect("created");
    let records = env.database("records").expect("created");
    (0..4000u32).for_each(|n| records.insert(n.to_be_bytes(), [7; 500]).expect("inserted"));
    let heard = listener.heard();
    assert!(
        heard[position(&heard, "cache swept")].starts_with("DEBUG message=cache swept frames="),
        "{heard:#?}"
    );
    let left = place.killed("tracing-left");
    drop((records, env));
    listener.heard();
    let env = left.open().expect("recovered");
    let report = env.recovery();
    let heard = listener.heard();
    let recovered = &heard[position(&heard, "environment recovered")];
    assert!(
        report.commits > 3000 && recovered.contains(&format!("commits={}", report.commits)),
        "{report:?}: {recovered}"
    );
    assert!(position(&heard, "environment recovered") < position(&heard, "environment opened"));
}
