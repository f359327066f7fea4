//! System calls of a process that is stepped: which they are, and having one fail.
//!
//! A call that fails is not made: the process gets an error of those that the system has for it, as far as a
//! call on files, memory or locks can meet them on a machine that is in order otherwise. So this reaches what
//! the seam of the disk does not: mappings, locks, the files of regions.
//!
//! Not among them are the allocator's own calls, since a program that gets no memory for its own things ends;
//! and `close`, `munmap` and `exit`, which do what they are to whatever they answer.

use std::fmt;
use std::io;

use super::stepped::{Did, Stepped};

/// A system call that a process is about to make.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SystemCall {
    name: &'static str,
    /// What it is about: a path, or what a descriptor stands for.
    about: String,
    errors: &'static [i32],
}

impl SystemCall {
    /// In how many ways it may fail.
    #[must_use]
    pub fn ways(&self) -> usize {
        self.errors.len()
    }

    /// One of the errors that it may answer with.
    ///
    /// # Panics
    /// If there are not so many.
    #[must_use]
    pub fn error(&self, way: usize) -> io::Error {
        io::Error::from_raw_os_error(self.errors[way])
    }

    /// Whether that is a signal that came in between: a caller that asks again gets what was asked for.
    #[must_use]
    pub fn is_interrupted(&self, way: usize) -> bool {
        self.errors[way] == libc::EINTR
    }

    /// Whether it does the same as another, to whatever.
    #[must_use]
    pub fn is_like(&self, other: &SystemCall) -> bool {
        self.name == other.name
    }
}

impl fmt::Display for SystemCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.about)
    }
}

/// Which argument says what a call is about.
#[derive(Clone, Copy)]
enum About {
    Path(usize),
    Descriptor(usize),
    Nothing,
}

use About::{Descriptor, Nothing, Path};

/// The calls that may fail: with which errors.
const CALLS: &[(libc::c_long, &str, About, &[i32])] = &[
    (libc::SYS_openat, "openat", Path(1), &[libc::EMFILE, libc::EIO, libc::EINTR, libc::EACCES]),
    (libc::SYS_ftruncate, "ftruncate", Descriptor(0), &[libc::ENOSPC, libc::EIO, libc::EINTR]),
    (libc::SYS_fallocate, "fallocate", Descriptor(0), &[libc::ENOSPC, libc::EIO, libc::EINTR]),
    (libc::SYS_mmap, "mmap", Descriptor(4), &[libc::ENOMEM]),
    (libc::SYS_mremap, "mremap", Nothing, &[libc::ENOMEM]),
    (libc::SYS_madvise, "madvise", Nothing, &[libc::ENOMEM, libc::EAGAIN, libc::EINVAL]),
    (libc::SYS_renameat2, "renameat2", Path(1), &[libc::ENOSPC, libc::EIO, libc::EACCES]),
    (libc::SYS_renameat, "renameat", Path(1), &[libc::ENOSPC, libc::EIO, libc::EACCES]),
    (libc::SYS_unlinkat, "unlinkat", Path(1), &[libc::EIO, libc::EACCES]),
    (libc::SYS_mkdirat, "mkdirat", Path(1), &[libc::ENOSPC, libc::EIO, libc::EACCES]),
    (libc::SYS_fsync, "fsync", Descriptor(0), &[libc::EIO, libc::ENOSPC, libc::EINTR]),
    (libc::SYS_fdatasync, "fdatasync", Descriptor(0), &[libc::EIO, libc::ENOSPC, libc::EINTR]),
    (libc::SYS_fchmod, "fchmod", Descriptor(0), &[libc::EIO, libc::EPERM]),
    (libc::SYS_fchmodat, "fchmodat", Path(1), &[libc::EIO, libc::EPERM]),
    (libc::SYS_read, "read", Descriptor(0), &[libc::EIO, libc::EINTR]),
    (libc::SYS_pread64, "pread", Descriptor(0), &[libc::EIO, libc::EINTR]),
    (libc::SYS_write, "write", Descriptor(0), &[libc::ENOSPC, libc::EIO, libc::EINTR]),
    (libc::SYS_pwrite64, "pwrite", Descriptor(0), &[libc::ENOSPC, libc::EIO, libc::EINTR]),
    (libc::SYS_pwritev, "pwritev", Descriptor(0), &[libc::ENOSPC, libc::EIO, libc::EINTR]),
    (libc::SYS_pwritev2, "pwritev2", Descriptor(0), &[libc::ENOSPC, libc::EIO, libc::EINTR]),
    (libc::SYS_getdents64, "getdents", Descriptor(0), &[libc::EIO]),
    (libc::SYS_newfstatat, "newfstatat", Path(1), &[libc::EIO, libc::EACCES]),
    (libc::SYS_statx, "statx", Path(1), &[libc::EIO, libc::EACCES]),
    (libc::SYS_fstat, "fstat", Descriptor(0), &[libc::EIO]),
    (libc::SYS_statfs, "statfs", Path(0), &[libc::EIO]),
    (libc::SYS_fstatfs, "fstatfs", Descriptor(0), &[libc::EIO]),
    (libc::SYS_lseek, "lseek", Descriptor(0), &[libc::EINVAL]),
    (libc::SYS_readlinkat, "readlinkat", Path(1), &[libc::EIO, libc::EACCES]),
    (libc::SYS_ioctl, "ioctl", Descriptor(0), &[libc::EIO, libc::ENOTTY]),
    (libc::SYS_dup3, "dup3", Descriptor(0), &[libc::EMFILE]),
    (libc::SYS_futex, "futex", Nothing, &[libc::EINTR]),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_rename, "rename", Path(0), &[libc::ENOSPC, libc::EIO, libc::EACCES]),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_unlink, "unlink", Path(0), &[libc::EIO, libc::EACCES]),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mkdir, "mkdir", Path(0), &[libc::ENOSPC, libc::EIO, libc::EACCES]),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, "chmod", Path(0), &[libc::EIO, libc::EPERM]),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_readlink, "readlink", Path(0), &[libc::EIO, libc::EACCES]),
];

/// Which call this is, of those that may fail.
fn judge(number: libc::c_long, arguments: &[u64; 6]) -> Option<(&'static str, About, &'static [i32])> {
    if number == libc::SYS_fcntl {
        let (name, errors): (_, &[i32]) = match arguments[1] as libc::c_int {
            libc::F_OFD_SETLK => ("fcntl(F_OFD_SETLK)", &[libc::ENOLCK, libc::EIO, libc::EINTR]),
            libc::F_OFD_GETLK => ("fcntl(F_OFD_GETLK)", &[libc::ENOLCK, libc::EIO, libc::EINTR]),
            libc::F_DUPFD_CLOEXEC => ("fcntl(F_DUPFD_CLOEXEC)", &[libc::EMFILE]),
            _ => return None,
        };
        return Some((name, Descriptor(0), errors));
    }
    let &(_, name, about, errors) = CALLS.iter().find(|(known, ..)| *known == number)?;
    let may_fail = match number {
        // Memory of no file that is to be used is the allocator's.
        libc::SYS_mmap => arguments[4] as i32 >= 0 || arguments[2] == 0,
        // To wait, that is; a call that wakes others is not interrupted.
        libc::SYS_futex => matches!(
            arguments[1] as i32 & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME),
            libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET
        ),
        _ => true,
    };
    may_fail.then_some((name, about, errors))
}

impl Stepped {
    /// Lets it run to the beginning of its next system call that may fail; or to a mark, or its end: what it
    /// did then.
    ///
    /// # Errors
    /// Those of the system; `PermissionDenied` where it does not tell of calls.
    pub fn run_to_failing_call(&mut self) -> io::Result<Result<SystemCall, Did>> {
        loop {
            match self.step_to_call()? {
                Did::Step => {}
                did => return Ok(Err(did)),
            }
            let Some((number, arguments)) = self.call_begun()? else { continue };
            if let Some((name, about, errors)) = judge(number, &arguments) {
                return Ok(Ok(SystemCall { name, about: self.told_of(about, &arguments), errors }));
            }
        }
    }

    /// Whether the next instruction is a system call.
    ///
    /// # Errors
    /// Those of the system.
    pub fn is_before_call(&self) -> io::Result<bool> {
        let registers = self.registers()?;
        // SAFETY: the request reads a word of the process's memory, which is its code; it writes nothing.
        let word =
            unsafe { libc::ptrace(libc::PTRACE_PEEKTEXT as _, self.pid(), next_of(&registers), 0usize) };
        Ok(word as u32 & CALL.1 == CALL.0)
    }

    /// Has the call at whose beginning it stands not be made, and answer with an error. It stands at the end
    /// of the call then.
    ///
    /// # Errors
    /// Those of the system; `UnexpectedEof` if the process has ended.
    pub fn fail_call(&mut self, call: &SystemCall, way: usize) -> io::Result<()> {
        self.forget_call()?;
        if self.step_to_call()? != Did::Step {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut registers = self.registers()?;
        *answer_of(&mut registers) = i64::from(-call.errors[way]) as u64;
        self.set_registers(&mut registers)
    }

    /// The number and the arguments of the call at whose beginning it stands, if it stands at one.
    fn call_begun(&self) -> io::Result<Option<(libc::c_long, [u64; 6])>> {
        // SAFETY: a structure of integers, for which zero is a value.
        let mut told: libc::ptrace_syscall_info = unsafe { std::mem::zeroed() };
        let len = size_of_val(&told);
        // SAFETY: the kernel writes at most `len` bytes to the structure; the process is stopped.
        let answer = unsafe { libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, self.pid(), len, &raw mut told) };
        if answer == -1 {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        if told.op != libc::PTRACE_SYSCALL_INFO_ENTRY {
            return Ok(None);
        }
        // SAFETY: at a beginning it is this part of the union that was written, and any bytes are valid for
        // it.
        let entry = unsafe { told.u.entry };
        Ok(Some((entry.nr as libc::c_long, entry.args)))
    }

    fn told_of(&self, about: About, arguments: &[u64; 6]) -> String {
        match about {
            // With an empty path, what the descriptor before it stands for.
            Path(at) => match self.text(arguments[at]) {
                text if text.is_empty() && at > 0 => self.told_of(Descriptor(at - 1), arguments),
                text => text,
            },
            Descriptor(at) => {
                let link = std::fs::read_link(format!("/proc/{}/fd/{}", self.pid(), arguments[at] as i32));
                link.map_or_else(|_| "nothing".to_owned(), |path| path.display().to_string())
            }
            Nothing => String::new(),
        }
    }

    /// The text at an address of its memory.
    fn text(&self, address: u64) -> String {
        use std::os::unix::fs::FileExt;
        let mut bytes = [0; 256];
        let memory = std::fs::File::open(format!("/proc/{}/mem", self.pid()));
        let read = memory.and_then(|memory| memory.read_at(&mut bytes, address)).unwrap_or(0);
        String::from_utf8_lossy(bytes[..read].split(|&byte| byte == 0).next().unwrap_or_default())
            .into_owned()
    }

    /// No call is made in the place of that at whose beginning it stands.
    #[cfg(not(target_arch = "aarch64"))]
    fn forget_call(&mut self) -> io::Result<()> {
        let mut registers = self.registers()?;
        registers.orig_rax = u64::MAX;
        self.set_registers(&mut registers)
    }

    #[cfg(target_arch = "aarch64")]
    fn forget_call(&mut self) -> io::Result<()> {
        const NT_ARM_SYSTEM_CALL: usize = 0x404;
        let mut none: libc::c_int = -1;
        self.set_of_registers(libc::PTRACE_SETREGSET as _, NT_ARM_SYSTEM_CALL, &mut none)
    }

    fn registers(&self) -> io::Result<libc::user_regs_struct> {
        // SAFETY: a structure of integers, for which zero is a value.
        let mut registers = unsafe { std::mem::zeroed() };
        self.set_of_registers(libc::PTRACE_GETREGSET as _, libc::NT_PRSTATUS as usize, &mut registers)?;
        Ok(registers)
    }

    fn set_registers(&mut self, registers: &mut libc::user_regs_struct) -> io::Result<()> {
        self.set_of_registers(libc::PTRACE_SETREGSET as _, libc::NT_PRSTATUS as usize, registers)
    }

    /// Reads or writes a set of registers. `T` consists of integers, as the set has them.
    fn set_of_registers<T>(&self, request: libc::c_int, set: usize, registers: &mut T) -> io::Result<()> {
        let mut place =
            libc::iovec { iov_base: std::ptr::from_mut(registers).cast(), iov_len: size_of::<T>() };
        // SAFETY: the kernel reads or writes no more than the bytes of `registers`, in which all bytes are
        // valid; the process is stopped.
        let answer = unsafe { libc::ptrace(request as _, self.pid(), set, &raw mut place) };
        if answer == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// The instruction that makes a call, and its bits.
#[cfg(target_arch = "aarch64")]
const CALL: (u32, u32) = (0xd400_0001, u32::MAX);
#[cfg(not(target_arch = "aarch64"))]
const CALL: (u32, u32) = (0x050f, 0xffff);

/// Where the next instruction is.
fn next_of(registers: &libc::user_regs_struct) -> u64 {
    #[cfg(target_arch = "aarch64")]
    return registers.pc;
    #[cfg(not(target_arch = "aarch64"))]
    return registers.rip;
}

/// The register with what a call answers.
fn answer_of(registers: &mut libc::user_regs_struct) -> &mut u64 {
    #[cfg(target_arch = "aarch64")]
    return &mut registers.regs[0];
    #[cfg(not(target_arch = "aarch64"))]
    return &mut registers.rax;
}
