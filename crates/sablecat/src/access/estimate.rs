//! How large a database is, about, from a few of its pages.
//!
//! *The estimator* is Knuth's, for the size of a tree of which only random ways down are looked at
//! (Estimating the efficiency of backtrack programs, Mathematics of Computation 29, 1975). A descent that
//! takes one of f children, each as likely as the others, counts everything below f times as much. So each
//! page of the tree is counted once on average, however unequal the tree's parts. The mean of several
//! descents is as right, and steadier the more there are, above all if they are spread evenly (stratified).
//! Then each has its part of the tree, seen as the numbers from 0 to 1, of which each page's children have
//! equal parts. What 64 descents say of a tree whose leaves are alike, as full as splits leave them, is right
//! to some five percent.
//!
//! Where few pages are all there are, or a method has no ways to choose from, all are looked at, and what
//! they say is exact.

/// Ways down that are looked at, and leaves of a tree that is small enough to be looked at whole.
pub(super) const DESCENTS: usize = 64;

/// What a database consists of, about.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Estimate {
    /// Pages from the root to a leaf, both counted: exact.
    pub(crate) depth: u32,
    /// What all pages have.
    pub(crate) sum: Sum,
    /// Whether all of them were looked at.
    pub(crate) is_exact: bool,
}

/// What pages have in all, each counted as often as those that it stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sum {
    /// Pages, those of long values too.
    pub(crate) pages: f64,
    /// Records.
    pub(crate) records: f64,
    /// Bytes that are in use in the pages, without their headers.
    pub(crate) bytes: f64,
}

/// How many records there are of a range, about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RecordEstimate {
    pub(crate) number: f64,
    /// Whether all pages that have some were looked at.
    pub(crate) is_exact: bool,
}

impl RecordEstimate {
    /// Adds what a page has, which stands for so many.
    pub(crate) fn add(&mut self, more: RecordEstimate, times: f64) {
        self.number += more.number * times;
        self.is_exact &= more.is_exact;
    }
}

impl Sum {
    /// Adds what a page has, which stands for so many.
    pub(super) fn add(&mut self, more: Sum, times: f64) {
        self.pages += more.pages * times;
        self.records += more.records * times;
        self.bytes += more.bytes * times;
    }
}

/// Chances that are the same each time for the same seed (Steele, Lea and Flood's SplitMix64): so two
/// estimates of one state are the same.
#[derive(Debug)]
pub(super) struct Chances(u64);

impl Chances {
    pub(super) fn new(seed: u64) -> Chances {
        Chances(seed)
    }

    /// A number from 0 to below 1.
    pub(super) fn part(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A way down: which child is taken at each page.
#[derive(Debug)]
pub(super) struct RandomDescent<'c> {
    chances: &'c mut Chances,
    /// Where in what is below the page it goes, from 0 to below 1.
    place: f64,
    /// Of how many places, about, it has chosen one: what a number that was drawn can tell apart is used up
    /// at some time.
    told: f64,
}

impl<'c> RandomDescent<'c> {
    /// One in the n-th of [`DESCENTS`] equal parts of the tree.
    pub(super) fn in_part(chances: &'c mut Chances, n: usize) -> RandomDescent<'c> {
        let place = (n as f64 + chances.part()) / DESCENTS as f64;
        RandomDescent { chances, place, told: DESCENTS as f64 }
    }

    /// One of so many children.
    pub(super) fn pick(&mut self, count: usize) -> usize {
        self.told *= count as f64;
        if self.told > (1u64 << 40) as f64 {
            (self.place, self.told) = (self.chances.part(), count as f64);
        }
        let place = self.place * count as f64;
        let child = (place as usize).min(count - 1);
        self.place = place.fract();
        child
    }
}
