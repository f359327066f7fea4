//! GT.M, the paper's own system, beside ours: `threen1.m` is the same work in M.
//!
//! It needs no library, only its programs: the package is looked for where the environment variable
//! `gtm_dist` says, else where Debian puts it. Set up as in the paper: one region, blocks of 4 KiB, 65,536 of
//! them cached (unless another cache is asked for), before-image journaling, everything else as it comes.
//! Every store is an update of its own, outside of transactions: it survives the death of its process, and a
//! crash of the system up to the last flush of the journal.
//!
//! All programs run in the database's directory and are given nothing of our own environment, so that no
//! setting of the user's and no blank in a path changes what they do.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::check::{Records, Results};
use super::input::Line;
use super::store::Account;
use super::system::System;

/// As `--vs` and its rows call it.
pub(super) const NAME: &str = "gtm";

/// What its commits promise, in words.
pub(super) const PROMISE: &str = "before-image journal; what is written survives its process's death, and a \
                                  crash of the system up to the last flush; an update is a store, outside \
                                  of transactions";

/// M's numbers have 18 digits.
pub(super) const HIGHEST_MAX: u64 = 999_999_999_999_999_999;

const BLOCK_BYTES: u64 = 4096;
const PROGRAM: &str = include_str!("threen1.m");
/// The database, its journal and its global directory all have this name.
const FILE: &str = "threen1";

/// An installed GT.M.
#[derive(Debug)]
pub(super) struct Gtm {
    dist: PathBuf,
    /// As it calls itself.
    pub(super) version: String,
    /// Blocks of cache.
    buffers: u64,
}

impl Gtm {
    /// Finds it.
    ///
    /// # Errors
    /// A sentence that says what is missing and how to get it.
    pub(super) fn find(cache_bytes: u64) -> Result<Gtm, String> {
        let dist = env::var_os("gtm_dist").map(PathBuf::from).or_else(installed);
        let dist = dist.filter(|dist| dist.join("mumps").is_file());
        let dist = dist.ok_or(
            "it is not installed (Debian: apt install fis-gtm; elsewhere: let gtm_dist name its directory)",
        )?;
        allowed(cache_bytes, limit("shmmax"), limit("shmall"))?;
        let mut gtm = Gtm { dist, version: String::new(), buffers: cache_bytes / BLOCK_BYTES };
        gtm.version =
            gtm.run(&env::temp_dir(), "mumps", ["-run", "%XCMD", "write $zversion,!"], "")?.trim().to_owned();
        Ok(gtm)
    }

    /// One of its programs, to be run on the database in `dir`.
    fn command(&self, dir: &Path, program: &str) -> Command {
        let dist = self.dist.display();
        let mut command = Command::new(self.dist.join(program));
        command
            .current_dir(dir)
            .env_clear()
            .env("gtm_dist", &self.dist)
            .env("gtmgbldir", format!("{FILE}.gld"));
        // Utilities lie in a library; GDE, where that is missing, beside the programs.
        command.env("gtmroutines", format!(". {dist}/libgtmutil.so {dist}"));
        // Ctrl-C is the parent's business.
        command.env("gtm_nocenable", "1").env("PATH", env::var_os("PATH").unwrap_or_default());
        command
    }

    /// Runs a program to its end, and tells what it printed.
    fn run<const N: usize>(
        &self,
        dir: &Path,
        program: &str,
        arguments: [&str; N],
        input: &str,
    ) -> Result<String, String> {
        let failed = |why: &str| format!("{program} {}: {why}", arguments.join(" "));
        let io = |error: std::io::Error| failed(&error.to_string());
        let mut command = self.command(dir, program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(io)?;
        if let Some(mut stdin) = child.stdin.take() {
            // One that ends without reading has more to say about it than a broken pipe.
            let _ = stdin.write_all(input.as_bytes());
        }
        let output = child.wait_with_output().map_err(io)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(failed(text(&output.stderr).trim()))
        }
    }

    fn entry<const N: usize>(
        &self,
        dir: &Path,
        entry: &str,
        parameters: [&str; N],
    ) -> Result<String, String> {
        let label = format!("{entry}^{FILE}");
        let command = parameters.join(" ");
        self.run(dir, "mumps", ["-run", &label, &command], "")
    }

    /// Checks every record, as they are printed: how many there are, and what is wrong with them.
    fn check(&self, dir: &Path, mut records: Records<'_>) -> Result<(u64, Vec<String>), String> {
        let io = |error: std::io::Error| format!("reading the records: {error}");
        let mut command = self.command(dir, "mumps");
        command.args(["-run", &format!("records^{FILE}")]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(io)?;
        // Read to the end in any case, so that it can end.
        let mut goes_on = true;
        for line in child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines) {
            if goes_on {
                let (number, steps) =
                    line.as_ref().ok().and_then(|line| line.split_once(' ')).unwrap_or_default();
                goes_on = records.see(number.parse().ok(), steps.parse().ok());
            }
        }
        let status = child.wait().map_err(io)?;
        if status.success() { Ok(records.end()) } else { Err(format!("reading the records: {status}")) }
    }
}

impl System for Gtm {
    fn name(&self) -> &'static str {
        NAME
    }

    fn options(&self) -> &'static str {
        "before-images"
    }

    fn durability(&self) -> &'static str {
        "NoSync"
    }

    fn create(&self, dir: &Path, line: &Line) -> Result<(), String> {
        let written =
            fs::create_dir(dir).and_then(|()| fs::write(dir.join(FILE).with_extension("m"), PROGRAM));
        written.map_err(|error| format!("cannot write to {}: {error}", dir.display()))?;
        let buffers = self.buffers;
        let layout = format!(
            "change -segment DEFAULT -file=\"{FILE}.dat\"\n\
             change -segment DEFAULT -block_size={BLOCK_BYTES} -global_buffer_count={buffers}\nexit\n"
        );
        self.run(dir, "mumps", ["-run", "GDE"], &layout)?;
        self.run(dir, "mupip", ["create"], "")?;
        let journal = format!("-journal=enable,on,before,file={FILE}.mjl");
        self.run(dir, "mupip", ["set", &journal, "-region", "*"], "")?;
        self.entry(dir, "begin", [&line.start.to_string()]).map(drop)
    }

    fn worker(&self, dir: &Path, line: &Line, number: u32) -> Result<Command, String> {
        let mut command = self.command(dir, "mumps");
        command.args(["-run", &format!("work^{FILE}"), &format!("{number} {} {}", line.finish, line.block)]);
        Ok(command)
    }

    fn results(&self, dir: &Path, line: &Line) -> Result<Results, String> {
        let printed = self.entry(dir, "results", [])?;
        let (next, accounts) =
            parse(&printed).ok_or_else(|| format!("results that cannot be read: {printed:?}"))?;
        let total = accounts.iter().fold(Account::default(), |sum, &account| sum.merge(account));
        let mut problems = Vec::new();
        if accounts.len() != line.workers as usize {
            problems.push(format!("{} workers of {} have an account", accounts.len(), line.workers));
        }
        let mut count = None;
        if let Some(records) = Records::of(line) {
            let (found, mut wrong) = self.check(dir, records)?;
            count = Some(found);
            problems.append(&mut wrong);
        }
        Ok(Results { total, next: Some(next), records: count, problems })
    }

    fn abandon(&self, dir: &Path) {
        // Shared memory and semaphores stay when processes are killed; where nothing was created there is
        // nothing to give back.
        if dir.exists() {
            let _ = self.run(dir, "mupip", ["rundown", "-override", "-region", "*"], "");
        }
    }
}

/// Where Debian puts it: the newest, if there are several.
fn installed() -> Option<PathBuf> {
    let below = |dir: &Path| -> Vec<PathBuf> {
        fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    let packages = below(Path::new("/usr/lib")).into_iter().map(|libraries| libraries.join("fis-gtm"));
    packages
        .flat_map(|package| below(&package))
        .filter(|dist| dist.join("mumps").is_file())
        .max_by_key(|dist| name(dist).to_owned())
}

fn name(path: &Path) -> &OsStr {
    path.file_name().unwrap_or_default()
}

/// What the system allows of shared memory: `shmmax` counts bytes of one segment, `shmall` pages of all.
fn limit(name: &str) -> Option<u64> {
    fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?.trim().parse().ok()
}

/// Whether the cache, and a fifth of it for what describes it, may be shared memory of the old kind. Limits
/// that are not known allow all.
fn allowed(cache_bytes: u64, segment_bytes_max: Option<u64>, pages_max: Option<u64>) -> Result<(), String> {
    let needed = cache_bytes + cache_bytes / 5 + (16 << 20);
    if let Some(max) = segment_bytes_max.filter(|&max| max < needed) {
        return Err(format!(
            "the system allows {max} bytes a shared segment: sysctl -w kernel.shmmax={needed}"
        ));
    }
    let page_bytes = rustix::param::page_size() as u64;
    let pages = needed.div_ceil(page_bytes);
    if let Some(max) = pages_max.filter(|&max| max < pages) {
        return Err(format!(
            "the system allows {max} pages of shared segments: sysctl -w kernel.shmall={pages}"
        ));
    }
    Ok(())
}

/// The first unclaimed integer, and the accounts, as `threen1.m` prints them.
fn parse(printed: &str) -> Option<(u64, Vec<Account>)> {
    let mut lines = printed.lines();
    let next = lines.next()?.parse().ok()?;
    let account = |line: &str| {
        let numbers: Vec<u64> = line.split(' ').map(|word| word.parse().ok()).collect::<Option<_>>()?;
        let &[reads, updates, longest, highest] = &numbers[..] else { return None };
        Some(Account { reads, updates, longest, highest, ..Account::default() })
    };
    Some((next, lines.map(account).collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_numbers() {
        let account = |reads| Account { reads, updates: 2, longest: 3, highest: 4, ..Account::default() };
        assert_eq!(parse("11\n1 2 3 4\n5 2 3 4\n"), Some((11, vec![account(1), account(5)])));
        assert_eq!(parse("11\n"), Some((11, vec![])));
        for wrong in ["", "x\n", "11\n1 2 3\n", "11\n1 2 3 4 5\n", "11\n1 2 3 4E18\n"] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn small_limits_are_named() {
        let cache = 256 << 20;
        assert_eq!(allowed(cache, Some(u64::MAX), Some(u64::MAX)), Ok(()));
        assert_eq!(allowed(cache, None, None), Ok(()));
        let error = allowed(cache, Some(32 << 20), None).unwrap_err();
        assert_eq!(
            error,
            "the system allows 33554432 bytes a shared segment: sysctl -w kernel.shmmax=338899763"
        );
        assert!(allowed(cache, None, Some(100)).unwrap_err().contains("kernel.shmall="));
    }
}
