//! Numbers that look like chance, and are the same in each run.

pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 31).wrapping_mul(0xd6e8_feb8_6659_fd93);
        (mixed ^ mixed >> 32) % end
    }

    /// One of some.
    pub fn of<T: Copy>(&mut self, some: &[T]) -> T {
        some[self.below(some.len() as u64) as usize]
    }
}
