//! The paper's figures: GT.M with eight workers, on a magnetic disk, about 2010.

use super::input::Line;

/// How many workers the paper's runs had.
pub(super) const WORKERS: u32 = 8;
/// The file system whose figures stand beside ours where none is named.
pub(super) const FILE_SYSTEM: &str = "ext4";

/// One run of the paper's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Figures {
    pub(super) seconds: u64,
    /// Not all of them were printed.
    pub(super) updates_per_s: Option<u64>,
}

/// A row: the last integer, its seconds, its updates a second, by file system as in `COLUMNS`.
type Row = (u64, [Option<u64>; 6], [Option<u64>; 6]);

const COLUMNS: [&str; 6] = ["ext4", "ext3", "ext2", "jfs", "btrfs", "xfs"];
const ROWS: [Row; 4] = [
    (1_000_000, all([15, 14, 13, 13, 15, 14]), all([144_698, 154_992, 166_882, 166_947, 144_674, 155_152])),
    (10_000_000, all([319, 5312, 177, 374, 3571, 220]), all([68_131, 4091, 122_779, 58_107, 6086, 98_816])),
    (
        20_000_000,
        all([2213, 16_323, 1680, 2484, 28_667, 2834]),
        all([19_638, 2662, 25_868, 17_495, 1516, 15_335]),
    ),
    // On btrfs it ended early.
    (40_000_000, [Some(41_087), Some(64_016), Some(35_989), Some(50_378), None, Some(47_571)], [None; 6]),
];

const fn all(values: [u64; 6]) -> [Option<u64>; 6] {
    let [a, b, c, d, e, f] = values;
    [Some(a), Some(b), Some(c), Some(d), Some(e), Some(f)]
}

/// What the paper has for a line on a file system.
pub(super) fn figures(line: &Line, file_system: &str) -> Option<Figures> {
    let column = COLUMNS.iter().position(|&name| name == file_system)?;
    let (_, seconds, updates) =
        ROWS.iter().find(|(finish, ..)| (1, *finish, WORKERS) == (line.start, line.finish, line.workers))?;
    Some(Figures { seconds: seconds[column]?, updates_per_s: updates[column] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paper_ran_some_lines_on_some_file_systems() {
        let line = Line { start: 1, finish: 10_000_000, workers: 8, block: 1 };
        assert_eq!(figures(&line, "xfs"), Some(Figures { seconds: 220, updates_per_s: Some(98_816) }));
        assert_eq!(
            figures(&Line { finish: 40_000_000, ..line }, "ext4"),
            Some(Figures { seconds: 41_087, updates_per_s: None })
        );
        assert_eq!(figures(&Line { finish: 40_000_000, ..line }, "btrfs"), None);
        assert_eq!(figures(&line, "tmpfs"), None);
        assert_eq!(figures(&Line { workers: 4, ..line }, "xfs"), None);
    }
}
