//! A process that answers requests, a line each, and is killed when it does not.

use std::ffi::OsString;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde::de::DeserializeOwned;

use crate::contestant::{Refusal, Served};
use crate::patience::{self, Asked};
use crate::protocol::{Answer, Figures, Request};

/// How often a process that is to end is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// How long a process may take to end that says nothing more.
const ENDING: Duration = Duration::from_secs(60);

/// A process that answers requests.
pub(crate) struct Process {
    child: Child,
    /// None: no more requests will come.
    input: Option<ChildStdin>,
    output: Output,
    /// How long it may take over anything; none: as long as the requests say ([`crate::patience`]).
    limit: Option<Duration>,
    /// What it was asked last, and when.
    asked: (String, Instant),
    /// The longest of what it has for each request so far.
    patience: Duration,
}

impl Served for Process {
    fn id(&self) -> u32 {
        self.child.id()
    }

    fn ask(&mut self, request: &Request) -> Result<Figures, Refusal> {
        self.tell(request)?;
        self.hear()
    }
}

impl Process {
    /// A new one, by its command line.
    pub(crate) fn start(command: &[OsString], limit: Option<Duration>) -> Result<Process, Refusal> {
        let (name, arguments) =
            command.split_first().ok_or_else(|| Refusal::Failed("no program to start".to_owned()))?;
        let spawned = Command::new(name).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child =
            spawned.map_err(|error| Refusal::Failed(format!("cannot start {}: {error}", name.display())))?;
        let (input, Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both were asked for");
        };
        let asked = ("start".to_owned(), Instant::now());
        let output = Output { from: output, read: Vec::new() };
        Ok(Process { child, input, output, limit, asked, patience: patience::LEAST })
    }

    /// Sends a request. The clock of its answer runs from here.
    pub(crate) fn tell(&mut self, request: &impl Asked) -> Result<(), Refusal> {
        let mut line = serde_json::to_string(request)
            .map_err(|error| Refusal::Failed(format!("a request that cannot be written: {error}")))?;
        line.push('\n');
        self.asked = (request.what(), Instant::now());
        self.patience = self.patience.max(patience::LEAST + request.work());
        let sent = self.input.as_mut().map(|input| input.write_all(line.as_bytes()));
        // A broken pipe says less than the process's end does.
        if matches!(sent, Some(Ok(()))) { Ok(()) } else { Err(Refusal::Failed(self.how_it_ended())) }
    }

    /// Waits for the answer to the first request that has none yet. A process that takes too long is killed.
    pub(crate) fn hear<T: DeserializeOwned>(&mut self) -> Result<T, Refusal> {
        let line = match self.output.until(self.deadline(), |read| read.iter().position(|&b| b == b'\n')) {
            Heard::Bytes(line) => line,
            Heard::End(rest) if rest.is_empty() => return Err(Refusal::Failed(self.how_it_ended())),
            Heard::End(rest) => rest,
            Heard::Nothing => return Err(Refusal::Failed(self.no_answer())),
        };
        let line = String::from_utf8_lossy(&line);
        match serde_json::from_str(&line) {
            Ok(Answer::Done(done)) => Ok(done),
            Ok(Answer::Error { error }) => Err(Refusal::Failed(error)),
            Ok(Answer::Skipped { skipped }) => Err(Refusal::Skipped(skipped)),
            Err(error) => {
                Err(Refusal::Failed(format!("an answer that cannot be read ({error}): {}", line.trim())))
            }
        }
    }

    /// All that it prints until it ends, without a request.
    ///
    /// # Errors
    /// A sentence, when it fails, or does not end.
    pub(crate) fn all(mut self) -> Result<Vec<u8>, String> {
        self.input = None;
        let printed = match self.output.until(self.deadline(), |_| None) {
            Heard::Bytes(printed) | Heard::End(printed) => printed,
            Heard::Nothing => return Err(self.no_answer()),
        };
        match self.ends_within(self.limit.unwrap_or(ENDING)) {
            Some(status) if status.success() => Ok(printed),
            Some(status) => Err(status.to_string()),
            None => Err(self.no_end()),
        }
    }

    /// Tells it that no more requests will come, and gives it some time to put things in order. Whether it
    /// has: one that was killed has not.
    pub(crate) fn leave(&mut self, patience: Duration) -> bool {
        self.input = None;
        self.ends_within(patience).is_some_and(|status| status.signal().is_none())
    }

    /// From here on it has so long for anything.
    #[cfg(test)]
    pub(crate) fn limit(&mut self, limit: Duration) {
        self.limit = Some(limit);
    }

    /// When the answer must be there.
    fn deadline(&self) -> Instant {
        self.asked.1 + self.limit.unwrap_or(self.patience)
    }

    /// How it ended, if it does in time.
    fn ends_within(&mut self, patience: Duration) -> Option<ExitStatus> {
        let begun = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if begun.elapsed() < patience => thread::sleep(LOOK_EVERY),
                _ => return None,
            }
        }
    }

    fn how_it_ended(&mut self) -> String {
        match self.ends_within(self.limit.unwrap_or(ENDING)) {
            Some(status) => format!("its process ended in the middle: {status}"),
            None => self.no_end(),
        }
    }

    /// Kills one that does not answer; what to say of it.
    fn no_answer(&mut self) -> String {
        self.end();
        let (asked, limit) = (&self.asked.0, patience::told(self.limit.unwrap_or(self.patience)));
        format!("no answer to \"{asked}\" within {limit}: its process was killed")
    }

    /// Kills one that has closed its output; what to say of it.
    fn no_end(&mut self) -> String {
        self.end();
        format!("its process stopped answering \"{}\" without an end, and was killed", self.asked.0)
    }

    /// Kills it; one that has ended already stays as it is.
    fn end(&mut self) {
        // If it has ended, both are errors that say so.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has answered all that was asked, or will not.
        self.end();
    }
}

/// What a process prints.
struct Output {
    from: ChildStdout,
    /// What was read, and not yet asked for.
    read: Vec<u8>,
}

/// What there was to read.
enum Heard {
    /// As much as was wanted.
    Bytes(Vec<u8>),
    /// There is no more, and this was left.
    End(Vec<u8>),
    /// Not as much, in the time that there was.
    Nothing,
}

impl Output {
    /// The bytes up to the one whose place `last` knows, counted from the end of what it has seen before; all
    /// bytes if it knows none.
    fn until(&mut self, deadline: Instant, last: impl Fn(&[u8]) -> Option<usize>) -> Heard {
        let mut seen = 0;
        loop {
            if let Some(at) = last(&self.read[seen..]) {
                let rest = self.read.split_off(seen + at + 1);
                return Heard::Bytes(std::mem::replace(&mut self.read, rest));
            }
            seen = self.read.len();
            if !self.has_more(deadline) {
                return Heard::Nothing;
            }
            let mut part = [0; 1 << 16];
            match self.from.read(&mut part) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // An output that cannot be read has ended as well.
                Ok(0) | Err(_) => return Heard::End(std::mem::take(&mut self.read)),
                Ok(bytes) => self.read.extend_from_slice(&part[..bytes]),
            }
        }
    }

    /// Waits until there is something to read, or an end; whether it has come in time.
    fn has_more(&self, deadline: Instant) -> bool {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            match poll(&mut [PollFd::new(&self.from, PollFlags::IN)], Some(&left)) {
                Err(Errno::INTR) => {}
                Ok(ready) => return ready > 0,
                // Reading says what is wrong.
                Err(_) => return true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// A shell script as a process that has so many milliseconds for anything.
    fn process(script: &str, limit_ms: u64) -> Process {
        let command = ["sh", "-c", script].map(OsString::from);
        Process::start(&command, Some(Duration::from_millis(limit_ms))).unwrap()
    }

    /// Long enough for any answer that comes at all.
    const LONG_MS: u64 = 600_000;

    #[test]
    fn a_process_that_never_answers_is_killed() {
        let mut hanging = process("read -r line; exec sleep 1000", 20);
        let refusal = hanging.ask(&Request::Close).unwrap_err();
        let why = "no answer to \"close\" within 20 ms: its process was killed";
        assert_eq!(refusal, Refusal::Failed(why.to_owned()));
        assert!(!Path::new(&format!("/proc/{}", hanging.id())).exists(), "it is gone while it is still held");
        assert!(!hanging.leave(ENDING), "and has put nothing in order");
        let again = hanging.ask(&Request::Close).unwrap_err();
        assert_eq!(again, Refusal::Failed("its process ended in the middle: signal: 9 (SIGKILL)".to_owned()));
    }

    #[test]
    fn a_half_of_an_answer_is_none() {
        let mut hanging = process("printf '{\"ops\":'; exec sleep 1000", 20);
        let refusal = hanging.ask(&Request::Sync).unwrap_err();
        assert!(
            matches!(&refusal, Refusal::Failed(why) if why.starts_with("no answer to \"sync\"")),
            "{refusal}"
        );
    }

    #[test]
    fn a_process_that_closes_its_output_and_stays_is_killed() {
        let mut staying = process("exec >&-; exec sleep 1000", 20);
        let refusal = staying.ask(&Request::Close).unwrap_err();
        let why = "its process stopped answering \"close\" without an end, and was killed";
        // Or it has not come to closing its output yet.
        let not_yet = "no answer to \"close\" within 20 ms: its process was killed";
        assert!([why, not_yet].map(|why| Refusal::Failed(why.to_owned())).contains(&refusal), "{refusal}");
        assert!(!Path::new(&format!("/proc/{}", staying.id())).exists());
    }

    #[test]
    fn answers_may_come_in_parts_or_together() {
        let answer = r#"{"skipped":"s"}"#;
        let mut process = process(
            &format!("printf '{{\"skip'; printf 'ped\":\"s\"}}\\n{answer}\\n{answer}'; read -r line"),
            LONG_MS,
        );
        for _ in 0..2 {
            assert_eq!(process.hear::<Figures>(), Err(Refusal::Skipped("s".to_owned())));
        }
        process.input = None;
        assert_eq!(process.hear::<Figures>(), Err(Refusal::Skipped("s".to_owned())), "the last has no end");
        assert!(
            matches!(process.hear::<Figures>(), Err(Refusal::Failed(why)) if why.contains("exit status"))
        );
    }

    #[test]
    fn all_that_is_printed_is_read_to_the_end() {
        assert_eq!(process("echo a; echo b", LONG_MS).all().unwrap(), b"a\nb\n");
        assert_eq!(process("echo a; exit 3", LONG_MS).all().unwrap_err(), "exit status: 3");
        let why = process("exec sleep 1000", 20).all().unwrap_err();
        assert_eq!(why, "no answer to \"start\" within 20 ms: its process was killed");
    }

    #[test]
    fn what_comes_later_has_as_long_as_what_came_before() {
        let mut process = process("cat", LONG_MS);
        assert_eq!(process.patience, patience::LEAST);
        process.tell(&Request::Fill { bytes: 1 << 30 }).unwrap();
        let filling = process.patience;
        assert!(filling > patience::LEAST);
        process.tell(&Request::Close).unwrap();
        assert_eq!((process.patience, process.asked.0.as_str()), (filling, "close"));
        process.limit = None;
        assert_eq!(process.deadline(), process.asked.1 + filling);
    }
}
