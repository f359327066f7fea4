//! Chance from a seed: the same seed gives the same throws, on every machine and in every version.
//! (Splitmix64, Steele, Lea, Flood 2014.)

/// A source of throws.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The throws of a seed. Neighbouring seeds have nothing in common.
    pub fn new(seed: u64) -> Dice {
        let mut dice = Dice(seed ^ 0x5ab1_eca7_0000_0000);
        dice.0 = dice.throw();
        dice
    }

    /// Any 64 bits.
    pub fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `n`; 0 if there is none.
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 { 0 } else { self.throw() % n }
    }

    /// A place in, or a length of, something.
    pub fn index(&mut self, n: usize) -> usize {
        self.below(n as u64) as usize
    }

    /// True so many times in a hundred.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// Puts things into any order.
    pub fn shuffle<T>(&mut self, of: &mut [T]) {
        for n in (1..of.len()).rev() {
            of.swap(n, self.index(n + 1));
        }
    }

    /// One of several.
    pub fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.index(of.len())].clone()
    }
}
