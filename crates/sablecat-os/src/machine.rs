//! What the machine is: for choosing defaults and for telling one boot from another.
//!
//! Nothing here but [`boot_id`] is needed to be right: what cannot be found out has a documented stand-in.

use std::fs;
use std::io;
use std::sync::{Once, OnceLock};

use crate::signals::{action, calling};

/// Bytes of memory this process may use: the machine's, or the limit of its container or of its address space
/// if that is lower.
pub fn memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    let machine = (info.totalram as u64).saturating_mul(u64::from(info.mem_unit.max(1)));
    let address_space = rustix::process::getrlimit(rustix::process::Resource::As).current;
    [container_limit(), address_space].into_iter().flatten().fold(machine, u64::min)
}

/// The memory limit of the container this process is in, if there is one: control groups, second version,
/// then first.
fn container_limit() -> Option<u64> {
    ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        .iter()
        .find_map(|path| fs::read_to_string(path).ok()?.trim().parse().ok())
}

/// How many bytes a file may have that this process makes longer, if there is a limit: beyond it the system
/// ends the process, unless it [outlives that](outlive_file_limit).
pub fn file_bytes_max() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Fsize).current
}

/// Has it be an error (`FileTooLarge`) from now on to write beyond what this process [may
/// make](file_bytes_max) a file, where the system would end it by a signal. What a program does about that
/// signal itself stays; and another program that this one becomes gets it as ever.
pub fn outlive_file_limit() {
    static ONCE: Once = Once::new();
    extern "C" fn nothing(_: libc::c_int) {}
    ONCE.call_once(|| {
        if action(libc::SIGXFSZ, None).is_ok_and(|now| now.sa_sigaction == libc::SIG_DFL) {
            let _ = action(libc::SIGXFSZ, Some(&calling(nothing, libc::SA_RESTART | libc::SA_ONSTACK)));
        }
    });
}

/// Processors this process may run on. At least 1.
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Where the system tells which boot this is.
pub const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// A number that is drawn anew at each boot. All zero where the system has none to tell.
///
/// # Errors
/// Those of reading [`BOOT_ID`], if it is there: not to know it for a moment is not to have none, and memory
/// of this boot would be taken for that of another.
pub fn boot_id() -> io::Result<[u8; 16]> {
    match fs::read_to_string(BOOT_ID) {
        Ok(text) => Ok(parse_uuid(text.trim()).unwrap_or_default()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok([0; 16]),
        Err(error) => Err(error),
    }
}

fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let digits: Option<Vec<u8>> =
        text.chars().filter(|c| *c != '-').map(|c| c.to_digit(16).map(|d| d as u8)).collect();
    let pairs: Vec<u8> =
        digits?.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect();
    pairs.try_into().ok()
}

/// Bytes of physical memory this process occupies now. 0 if the system does not tell.
pub fn resident_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split_whitespace().nth(1).and_then(|field| field.parse().ok()).unwrap_or(0);
    pages * page_bytes() as u64
}

/// The unit in which the system maps memory: 4096, or up to 65536 on arm64.
pub fn page_bytes() -> usize {
    rustix::param::page_size()
}

/// What this process runs, with its arguments, as it was when this was asked first. Empty if the system did
/// not tell.
pub fn command() -> &'static str {
    static COMMAND: OnceLock<String> = OnceLock::new();
    COMMAND.get_or_init(|| {
        let words = fs::read("/proc/self/cmdline").unwrap_or_default();
        String::from_utf8_lossy(&words).replace('\0', " ").trim().to_owned()
    })
}

/// Among which processes the number of this one means this one, in a word.
pub fn process_namespace() -> Option<String> {
    let name = fs::read_link("/proc/self/ns/pid").ok()?;
    Some(name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_plausible() {
        assert!(cpus() >= 1);
        assert!(page_bytes().is_power_of_two() && page_bytes() >= 4096);
        assert!(resident_bytes() > 100 << 10, "a running test occupies more than 100 KiB");
        assert!(memory_bytes() > resident_bytes());
    }

    #[test]
    fn the_boot_has_an_identity_that_stays() {
        assert_ne!(boot_id().unwrap(), [0; 16]);
        assert_eq!(boot_id().unwrap(), boot_id().unwrap());
    }

    #[test]
    fn identities_are_read_as_written() {
        let expected: [u8; 16] = std::array::from_fn(|i| (i as u8) * 0x11);
        assert_eq!(parse_uuid("00112233-4455-6677-8899-aabbccddeeff"), Some(expected));
        for wrong in
            ["", "00112233", "00112233-4455-6677-8899-aabbccddeefg", "00112233-4455-6677-8899-aabbccddeeff00"]
        {
            assert_eq!(parse_uuid(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn touched_memory_is_counted() {
        let before = resident_bytes();
        let touched = vec![1u8; 64 << 20];
        let during = resident_bytes();
        assert!(during > before + (32 << 20), "{before} -> {during} with {} bytes touched", touched.len());
    }
}
