//! The allocator against a set, with threads, and with the marks that processes leave when they die in it.

use std::collections::BTreeSet;
use std::ops::{Deref, Range};

use proptest::prelude::*;

use super::*;

/// An allocator that owns its memory.
pub(crate) struct Owned {
    space: BitSpace,
    _memory: Box<[AtomicU64]>,
    _words: Box<[AtomicU64; 2]>,
}

impl Owned {
    pub(crate) fn new(bits: u64) -> Owned {
        let memory: Box<[AtomicU64]> = (0..bits / 64).map(|_| AtomicU64::new(0)).collect();
        let words = Box::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let start = NonNull::new(memory.as_ptr().cast_mut()).expect("not null");
        // SAFETY: the boxes live as long as the allocator and are used by nothing else.
        let space = unsafe {
            BitSpace::new((start, bits), (&words[0]).into(), (&words[1]).into(), Box::new(|_| Ok(())))
        };
        Owned { space, _memory: memory, _words: words }
    }

    /// Another allocator over the same memory, not to be used longer than this one.
    pub(crate) fn again(&self) -> BitSpace {
        let BitSpace { memory, levels, depth, hint, high, .. } = self.space;
        BitSpace {
            memory,
            levels,
            depth,
            hint,
            high,
            make_certain: Box::new(|_| Ok(())),
            runs_hint: AtomicUsize::new(0),
        }
    }
}

impl Deref for Owned {
    type Target = BitSpace;
    fn deref(&self) -> &BitSpace {
        &self.space
    }
}

/// Every summary bit says what the word below it says.
fn assert_exact(space: &BitSpace) {
    for level in 1..space.depth {
        for below in 0..space.levels[level - 1].words {
            let said = space.word(level, below / 64).load(SeqCst) >> (below % 64) & 1 == 1;
            assert_eq!(said, space.is_full(level - 1, below), "level {level}, word {below}");
        }
    }
}

#[test]
fn the_summaries_take_a_sixty_fourth() {
    for words in (1..200).chain([4095, 4096, 4160, 4161, 4162, 1 << 20, 1 << 26, 1 << 28]) {
        let (levels, depth) = divide(words);
        let top = levels[depth - 1];
        assert_eq!(top.words, 1);
        assert!(top.start + top.words <= words);
        assert!(
            (levels[0].words + 2 * depth) * 65 >= words * 64 - words / 64,
            "{words} words are divided sparingly"
        );
        for pair in levels[..depth].windows(2) {
            assert_eq!(pair[1].start, pair[0].start + pair[0].words);
            assert_eq!(pair[1].words, pair[0].words.div_ceil(64));
        }
    }
}

#[test]
fn numbers_come_ascending_to_the_last_and_come_back() {
    for bits in [64, 128, 4096, 64 * 65 * 64, 64 * 4200] {
        let space = Owned::new(bits);
        for expected in 0..space.capacity() {
            assert_eq!(space.allocate_one().unwrap(), Some(expected));
        }
        assert_eq!(space.allocate_one().unwrap(), None);
        assert_exact(&space);
        for number in [space.capacity() - 1, 0, space.capacity() / 2] {
            assert!(space.release(number));
            assert!(!space.release(number), "a second release is told");
            assert_eq!(space.allocate_one().unwrap(), Some(number));
            assert_eq!(space.allocate_one().unwrap(), None);
        }
    }
}

#[test]
fn an_opened_volume_allocates_at_its_end_until_it_is_scanned() {
    let space = Owned::new(1 << 20);
    space.assume_used_below(100_000).expect("within the capacity");
    assert_exact(&space);
    assert_eq!(space.used_count(), 100_000);
    assert_eq!(space.allocate_one().unwrap(), Some(100_000));
    assert!(space.release(77), "of the old generation, freed by a checkpoint meanwhile");
    assert_eq!(space.allocate_one().unwrap(), Some(77));
    let mut used = Used::new(100_000);
    for number in (0..100_000).filter(|n| n % 2 == 1) {
        used.insert(number);
    }
    space.free_unused(&used);
    assert_exact(&space);
    assert_eq!(space.used_count(), 50_001);
    assert!(space.is_used(77) && space.is_used(100_000) && !space.is_used(76));
    assert_eq!(space.allocate_one().unwrap(), Some(0));
    assert!(space.assume_used_below(1 << 20).is_err(), "a 64th of the memory is the summaries'");
}

#[test]
fn a_run_is_consecutive_and_prefers_old_room() {
    let space = Owned::new(1 << 16);
    space.assume_used_below(1000).expect("within the capacity");
    assert_eq!(space.allocate_run(200).unwrap(), Some(1000));
    space.release_run(100, 130);
    assert_eq!(space.allocate_run(130).unwrap(), Some(100));
    assert_eq!(space.allocate_run(2).unwrap(), Some(1200));
    assert_eq!(space.allocate_run(space.capacity()).unwrap(), None);
    assert_eq!(space.used_count(), 1202);
    assert_exact(&space);
}

/// A few numbers low down are often free.
#[test]
fn runs_that_come_and_go_far_above_the_lowest_room_stay_where_they_are() {
    let space = Owned::new(1_400_000 / 64 * 64);
    space.assume_used_below(1_200_000).unwrap();
    assert!(space.release(5));
    let first = space.allocate_run(1000).unwrap();
    for n in 0..1000 {
        let run = space.allocate_run(1000).unwrap().unwrap_or_else(|| panic!("none is left after {n}"));
        space.release_run(run, 1000);
    }
    assert_eq!((first, space.high_water()), (Some(1_200_000), 1_202_000));
    // As many numbers free as one by one.
    (1_150_000..1_160_000).for_each(|number| assert!(space.release(number)));
    for _ in 0..200_000 / 64 {
        space.allocate_run(64).unwrap();
    }
    let left = space.capacity() - space.used_count();
    assert!(left < 1000, "{left} of {}", space.capacity());
    assert_exact(&space);
}

#[test]
fn dead_processes_leave_hints_that_mislead_nobody() {
    let space = Owned::new(64 * 64 * 66);
    for _ in 0..64 * 64 {
        space.allocate_one().unwrap();
    }
    // Died after filling words, before saying so at either level.
    space.word(1, 0).store(0, SeqCst);
    space.word(2, 0).store(0, SeqCst);
    space.hint().store(0, SeqCst);
    assert_eq!(space.allocate_one().unwrap(), Some(64 * 64));
    assert_exact(&space);
    // Died after giving 70 back, before saying so: hidden until something else in its word is released.
    space.word(0, 1).fetch_and(!(1 << 6), SeqCst);
    assert_eq!(space.allocate_one().unwrap(), Some(64 * 64 + 1));
    space.release(64);
    assert_eq!(space.allocate_one().unwrap(), Some(64));
    assert_eq!(space.allocate_one().unwrap(), Some(70));
    // A hint from nowhere.
    space.hint().store(u64::MAX, SeqCst);
    assert_eq!(space.allocate_one().unwrap(), Some(64 * 64 + 2));
    // Died after raising the mark.
    space.raise_high_water(64 * 64 + 500);
    assert_eq!(space.allocate_one().unwrap(), Some(64 * 64 + 3));
    assert_eq!(space.highest_used(), Some(64 * 64 + 3));
    assert_eq!(space.trim_high_water(), 64 * 64 + 4);
}

#[test]
fn threads_never_share_a_number() {
    let space = Owned::new(64 * 66);
    let owners: Vec<_> = (0..space.capacity()).map(|_| AtomicU64::new(0)).collect();
    let own =
        |number: u64| assert_eq!(owners[number as usize].swap(1, SeqCst), 0, "{number} is given out twice");
    let disown = |number: u64| assert_eq!(owners[number as usize].swap(0, SeqCst), 1);
    std::thread::scope(|scope| {
        for seed in 1..=4u64 {
            let (space, own, disown) = (&space, &own, &disown);
            scope.spawn(move || {
                let mut mine = Vec::new();
                let mut random = seed;
                for _ in 0..20_000 {
                    random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    match random >> 60 {
                        // More taken than given back, so that it runs full and summaries change under each
                        // other.
                        0..9 => {
                            if let Some(number) = space.allocate_one().unwrap() {
                                own(number);
                                mine.push(number);
                            }
                        }
                        9 => {
                            if let Some(first) = space.allocate_run(70).unwrap() {
                                (first..first + 70).for_each(own);
                                mine.extend(first..first + 70);
                            }
                        }
                        10 => {
                            space.trim_high_water();
                        }
                        _ => {
                            for _ in 0..random % 8 {
                                if mine.is_empty() {
                                    break;
                                }
                                let number = mine.swap_remove((random >> 8) as usize % mine.len());
                                disown(number);
                                assert!(space.release(number));
                            }
                        }
                    }
                }
                for number in mine {
                    disown(number);
                    assert!(space.release(number));
                }
            });
        }
    });
    assert_eq!(space.used_count(), 0);
    // No room is lost: summaries let everything be found again.
    for expected in 0..space.capacity() {
        assert_eq!(space.allocate_one().unwrap(), Some(expected));
    }
}

#[derive(Clone, Debug)]
enum Step {
    One,
    Run(u64),
    Release(prop::sample::Index),
    Mark(u64),
    Trim,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn behaves_like_a_set(
        words in 1u64..200,
        steps in prop::collection::vec(prop_oneof![
            4 => Just(Step::One),
            1 => (1u64..150).prop_map(Step::Run),
            3 => any::<prop::sample::Index>().prop_map(Step::Release),
            1 => (0u64..12_600).prop_map(Step::Mark),
            1 => Just(Step::Trim),
        ], 0..400),
    ) {
        let space = Owned::new(words * 64);
        let mut model = BTreeSet::new();
        for step in steps {
            match step {
                Step::One => match space.allocate_one().unwrap() {
                    Some(number) => prop_assert!(number < space.capacity() && model.insert(number)),
                    None => prop_assert_eq!(model.len() as u64, space.capacity()),
                },
                Step::Run(length) => if let Some(first) = space.allocate_run(length).unwrap() {
                    for number in first..first + length {
                        prop_assert!(number < space.capacity() && model.insert(number));
                    }
                },
                Step::Release(which) => if !model.is_empty() {
                    let number = *model.iter().nth(which.index(model.len())).expect("in range");
                    model.remove(&number);
                    prop_assert!(space.release(number));
                },
                Step::Mark(number) => if number < space.capacity() {
                    prop_assert_eq!(space.take_run(number, 1).expect("memory"), model.insert(number));
                },
                Step::Trim => {
                    let high = model.last().map_or(0, |last| last + 1);
                    prop_assert_eq!(space.trim_high_water(), high);
                }
            }
            prop_assert_eq!(space.used_count(), model.len() as u64);
            prop_assert_eq!(space.highest_used(), model.last().copied());
            let from = model.len() as u64;
            let mut runs = Vec::new();
            while let Some(run) = space.next_free(runs.last().map_or(from, |run: &Range<u64>| run.end)) {
                runs.push(run);
            }
            let free = (from..space.high_water()).filter(|number| !model.contains(number));
            prop_assert!(runs.iter().cloned().flatten().eq(free));
            prop_assert!(runs.is_sorted_by(|one, next| one.end < next.start), "each run is whole");
            prop_assert!(space.highest_used().is_none_or(|highest| highest < space.high_water()));
        }
        assert_exact(&space);
    }
}

/// The real code in every order of its atomic steps that the explorer comes upon.
mod explored {
    use std::sync::Arc;

    use sablecat_os::atomic::{explore, explore_few_switches};
    use sablecat_os::shuttle::thread;

    use super::*;

    #[test]
    fn no_order_of_steps_loses_room_or_gives_a_number_twice() {
        let scenario = || {
            // Two words and a summary. One number is free in each word, so that every step fills or opens
            // one.
            let space = Arc::new(Owned::new(192));
            space.assume_used_below(space.capacity()).expect("the capacity");
            space.release(5);
            space.release(100);
            let threads: Vec<_> = [Some(7u64), Some(101), None]
                .into_iter()
                .map(|mine| {
                    let space = Arc::clone(&space);
                    thread::spawn(move || {
                        let mut held = Vec::from_iter(mine);
                        for _ in 0..2 {
                            held.extend(space.allocate_one().unwrap());
                            if let Some(number) = held.pop() {
                                assert!(space.release(number), "{number} was somebody else's too");
                            }
                            space.trim_high_water();
                        }
                        for number in held {
                            assert!(space.release(number), "{number} was somebody else's too");
                        }
                    })
                })
                .collect();
            for thread in threads {
                thread.join().expect("no assertion failed");
            }
            assert!(space.highest_used().is_some_and(|highest| highest < space.high_water()));
            // In which order, the hint decides.
            let found: BTreeSet<_> = std::iter::from_fn(|| space.allocate_one().unwrap()).collect();
            assert_eq!(found, BTreeSet::from([5, 7, 100, 101]), "all room is found again");
        };
        explore(1, 20_000, scenario);
        explore_few_switches(1, 4, 20_000, scenario);
    }

    #[test]
    fn no_order_of_steps_leaves_a_number_above_the_mark() {
        let scenario = || {
            let space = Arc::new(Owned::new(192));
            space.assume_used_below(2).expect("the capacity");
            let threads: Vec<_> = (0..3)
                .map(|n| {
                    let space = Arc::clone(&space);
                    thread::spawn(move || match n {
                        0 => {
                            let _ = space.trim_high_water();
                        }
                        1 => assert!(space.allocate_one().unwrap().is_some()),
                        _ => {
                            // Leaves the mark above what is in use, for the others to trim.
                            let first = space.allocate_run(3).unwrap().expect("room");
                            space.release_run(first, 3);
                            let _ = space.trim_high_water();
                        }
                    })
                })
                .collect();
            for thread in threads {
                thread.join().expect("no assertion failed");
            }
            assert_eq!(space.used_count(), 3);
            assert!((0..space.capacity()).filter(|&n| space.is_used(n)).all(|n| n < space.high_water()));
        };
        explore(2, 50_000, scenario);
        explore_few_switches(2, 4, 50_000, scenario);
    }
}
