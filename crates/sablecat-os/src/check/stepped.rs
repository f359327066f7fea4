//! Running a process one instruction at a time, by ptrace.
//!
//! The process offers itself ([`offer`]) and marks moments ([`mark`]) between which it wants to be stepped.
//! Its parent takes it from mark to mark ([`Stepped::start`], [`Stepped::step`]). A system call is one step,
//! and so is each round of an instruction that repeats itself. Only the thread that offered is stepped: the
//! others run.
//!
//! A step costs 20 to 70 us. On arm64 a loop of exclusive loads and stores never ends when it is stepped,
//! since each stop ends the exclusive access: the processor must have the atomic instructions of Armv8.1, as
//! [`is_possible`] says.

use std::cell::OnceCell;
use std::io;
use std::ops::Range;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use rustix::process::{Signal, set_parent_process_death_signal};

/// The status with which a process ends that may not be traced.
pub const NOT_PERMITTED: i32 = 77;

/// Whether processes can be stepped on this machine, as far as the processor is concerned.
#[must_use]
pub fn is_possible() -> bool {
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("lse");
    #[cfg(not(target_arch = "aarch64"))]
    return cfg!(target_arch = "x86_64");
}

/// Lets this process's parent step it, from the next [`mark`] on. The process ends with its parent from now
/// on.
///
/// # Errors
/// If it is not permitted here.
pub fn offer() -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // SAFETY: this request takes no addresses.
    let answer = unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) };
    if answer == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A moment that the parent is to see. The process stops until it has.
pub fn mark() {
    // SAFETY: a signal to this thread, which its tracer keeps from it.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// What a process did when it was let go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Did {
    /// One instruction, or whatever it was let do.
    Step,
    /// It has come to a mark.
    Mark,
    /// It ended, with this status of waitpid; or it was killed here, being about to end by a signal that it
    /// had raised against itself.
    End(i32),
}

/// What a process raises against itself by a fault, by aborting, or by its [`set_alarm`]. Kept from it, it
/// would go on for ever.
const FATAL: [i32; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT, libc::SIGALRM];

/// Has this process ended, by SIGALRM, unless it has ended by itself after so long.
pub fn set_alarm(seconds: u32) {
    // SAFETY: the call takes no addresses.
    unsafe { libc::alarm(seconds) };
}

/// A process that is stepped by the thread that started it, and by no other. Killed when dropped.
#[derive(Debug)]
pub struct Stepped {
    child: Child,
    ended: bool,
    /// Where its vDSO is; looked for once.
    vdso: OnceCell<Range<u64>>,
}

impl Stepped {
    /// Starts a process, and lets it run to its first mark.
    ///
    /// # Errors
    /// Those of the system; `PermissionDenied` if the process ended with [`NOT_PERMITTED`]; `UnexpectedEof`
    /// if otherwise.
    pub fn start(command: &mut Command) -> io::Result<Stepped> {
        let mut stepped = Stepped { child: command.spawn()?, ended: false, vdso: OnceCell::new() };
        match stepped.wait()? {
            Did::Mark => {
                // So that stops for system calls are told from others.
                stepped.request(libc::PTRACE_SETOPTIONS as _, libc::PTRACE_O_TRACESYSGOOD as usize)?;
                Ok(stepped)
            }
            Did::End(status) if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == NOT_PERMITTED => {
                Err(io::ErrorKind::PermissionDenied.into())
            }
            other => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("the process came to no mark: {other:?}"),
            )),
        }
    }

    /// Starts a process that does not offer itself, and has it stand at the first instruction of its program.
    /// Its first thread is stepped.
    ///
    /// # Errors
    /// Those of the system; `PermissionDenied` if it may not be traced.
    pub fn start_unasked(command: &mut Command) -> io::Result<Stepped> {
        // SAFETY: two system calls, of which neither allocates nor locks anything.
        unsafe { command.pre_exec(offer) };
        let mut stepped = Stepped { child: command.spawn()?, ended: false, vdso: OnceCell::new() };
        match stepped.wait()? {
            Did::Step => {
                stepped.request(libc::PTRACE_SETOPTIONS as _, libc::PTRACE_O_TRACESYSGOOD as usize)?;
                Ok(stepped)
            }
            other => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("the process did not come to its program: {other:?}"),
            )),
        }
    }

    /// Lets it execute one instruction.
    ///
    /// # Errors
    /// Those of the system.
    pub fn step(&mut self) -> io::Result<Did> {
        self.request(libc::PTRACE_SINGLESTEP as _, 0)?;
        self.wait()
    }

    /// Lets it run to the beginning, or then to the end, of its next system call.
    ///
    /// # Errors
    /// Those of the system.
    pub fn step_to_call(&mut self) -> io::Result<Did> {
        self.request(libc::PTRACE_SYSCALL as _, 0)?;
        self.wait()
    }

    /// Lets it run to its next mark, or its end.
    ///
    /// # Errors
    /// Those of the system.
    pub fn run(&mut self) -> io::Result<Did> {
        loop {
            self.request(libc::PTRACE_CONT as _, 0)?;
            match self.wait()? {
                Did::Step => {}
                did => return Ok(did),
            }
        }
    }

    /// Whether it is about to execute code of the kernel's own that is mapped into every process, the vDSO.
    /// That reads the clock again and again until it has not changed meanwhile: at each instruction of it
    /// there must be no long look.
    ///
    /// # Errors
    /// Those of reading about the process.
    pub fn is_in_vdso(&self) -> io::Result<bool> {
        let about = |what: &str| std::fs::read_to_string(format!("/proc/{}/{what}", self.pid()));
        if self.vdso.get().is_none() {
            let _ = self.vdso.set(range_of(&about("maps")?, "[vdso]"));
        }
        let vdso = self.vdso.get().cloned().unwrap_or_default();
        // The last word is the address of the next instruction.
        let syscall = about("syscall")?;
        let next = syscall.split_whitespace().last().and_then(|word| word.strip_prefix("0x"));
        Ok(next.and_then(|word| u64::from_str_radix(word, 16).ok()).is_some_and(|next| vdso.contains(&next)))
    }

    /// Kills it where it stands.
    ///
    /// # Errors
    /// Those of the system.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        while !self.ended {
            self.wait()?;
        }
        Ok(())
    }

    pub(super) fn pid(&self) -> libc::pid_t {
        self.child.id() as libc::pid_t
    }

    pub(super) fn request(&self, request: libc::c_int, data: usize) -> io::Result<()> {
        // SAFETY: the requests made here take no addresses; the process is a child of ours that was not
        // waited for to its end.
        let answer = unsafe { libc::ptrace(request as _, self.pid(), 0usize, data) };
        if answer == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    pub(super) fn wait(&mut self) -> io::Result<Did> {
        let mut status = 0;
        // SAFETY: the status is ours to write.
        if unsafe { libc::waitpid(self.pid(), &mut status, 0) } == -1 {
            return Err(io::Error::last_os_error());
        }
        if !libc::WIFSTOPPED(status) {
            self.ended = true;
            return Ok(Did::End(status));
        }
        match libc::WSTOPSIG(status) {
            libc::SIGSTOP => Ok(Did::Mark),
            signal if FATAL.contains(&signal) => {
                self.kill()?;
                // The status of a process that was ended by it.
                Ok(Did::End(signal))
            }
            _ => Ok(Did::Step),
        }
    }
}

/// The addresses of what is mapped under a name; none if nothing is.
fn range_of(maps: &str, name: &str) -> Range<u64> {
    let line = maps.lines().find(|line| line.ends_with(name)).unwrap_or_default();
    let ends = line.split(' ').next().and_then(|range| range.split_once('-'));
    let number = |text: &str| u64::from_str_radix(text, 16).unwrap_or_default();
    ends.map_or(0..0, |(start, end)| number(start)..number(end))
}

impl Drop for Stepped {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.kill();
        }
    }
}
