//! Going back: random lives of an environment with a journal, and then every state that it has been in is
//! asked for again.
//!
//! Each life ends by closing, or by cutting the power: after the last step, while closing, or while opening
//! the next time. After each step it is noted where the log ends and what the state is. Going back to an LSN
//! must give the state of which the log ended there, or, within a step of several commits, one of the two
//! around it; and the environment must be as good as any other afterwards, so the check goes on with it.

use sablecat::{Env, Journal, Lsn, Moment, Target};
use sablecat_os::sim::{SimDisk, Survival};

use crate::alike::{Wrong, clean, compare};
use crate::dice::Dice;
use crate::engine;
use crate::model::Model;
use crate::setting::{DIRECTORY, Setting};
use crate::step::{Shape, Step};

/// The states so far, each with the end of the log when it was noted.
#[derive(Clone, Debug)]
struct Past {
    states: Vec<(Lsn, Model)>,
}

impl Past {
    fn newest(&self) -> &Model {
        &self.states.last().expect("there is always a state").1
    }

    /// The states that going back to an LSN may give.
    fn at(&self, lsn: Lsn) -> &[(Lsn, Model)] {
        let after = self.states.partition_point(|(end, _)| *end <= lsn);
        let is_between = after == 0 || self.states[after - 1].0 < lsn;
        let end = (after + usize::from(is_between)).min(self.states.len());
        &self.states[after.saturating_sub(1)..end]
    }

    /// Goes on from a state that was found when going back to an LSN.
    fn cut(&mut self, lsn: Lsn, found: Model) {
        self.states.retain(|(end, _)| *end <= lsn);
        self.states.push((lsn, found));
    }
}

fn text(error: &sablecat::Error) -> Wrong {
    format!("{:?}: {error}", error.kind())
}

/// What may be done to an environment with a journal, and keeps to one moment.
fn is_fit(step: &Step) -> bool {
    !matches!(step, Step::Hold | Step::Look(..) | Step::Release | Step::Reopen)
}

/// One life: opens, does steps, and ends in one of several ways. Returns the disk that is left.
fn live(
    disk: SimDisk,
    setting: &Setting,
    steps: &[Step],
    past: &mut Past,
    dice: &mut Dice,
) -> Result<SimDisk, Wrong> {
    let env =
        setting.builder_on(&disk).open(DIRECTORY).map_err(|error| format!("opening: {}", text(&error)))?;
    compare(&env, past.newest()).map_err(|wrong| format!("after opening: {wrong}"))?;
    for step in steps.iter().filter(|step| is_fit(step)) {
        let mut after = past.newest().clone();
        let expected = after.apply(step);
        match engine::apply(&env, step) {
            Ok(answer) if answer == expected => {}
            Ok(answer) => return Err(format!("{step:?} answered {answer:?}, not {expected:?}")),
            Err(error) => return Err(format!("{step:?}: {}", text(&error))),
        }
        past.states.push((env.stats().map_err(|error| text(&error))?.log_tail, after));
    }
    if dice.percent(50) {
        env.close().map_err(|error| format!("closing: {}", text(&error)))?;
        return Ok(disk);
    }
    env.sync().map_err(|error| text(&error))?;
    if dice.percent(50) {
        disk.crash_at(disk.calls() + dice.below(60));
        let _ = env.close();
    }
    let disk = disk.crash_as(dice.pick(&Survival::ALL), dice.throw());
    if dice.percent(50) {
        return Ok(disk);
    }
    // Opening changes nothing, however far it gets.
    disk.crash_at(disk.calls() + dice.below(80));
    let _ = setting.builder_on(&disk).open(DIRECTORY);
    Ok(disk.crash_as(dice.pick(&Survival::ALL), dice.throw()))
}

/// The LSNs that can be gone back to: that of the oldest epoch, and of every state since.
fn reachable(disk: &SimDisk, setting: &Setting, past: &Past) -> Result<(Lsn, Vec<Lsn>), Wrong> {
    let history = setting.builder_on(disk).history(DIRECTORY).map_err(|error| text(&error))?;
    let oldest = history.epochs.first().ok_or("there is always the last checkpoint")?.lsn;
    let of_epochs = history.epochs.iter().map(|epoch| epoch.lsn);
    let of_states = past.states.iter().map(|(end, _)| *end).filter(|end| *end >= oldest);
    Ok((oldest, of_epochs.chain(of_states).collect()))
}

/// Goes back to an LSN on a copy of the disk, which it returns, and looks at what is there.
fn go_back(disk: &SimDisk, setting: &Setting, lsn: Lsn, past: &Past) -> Result<(SimDisk, Model), Wrong> {
    let copy = disk.crash_as(Survival::Everything, 1);
    let recovery = setting
        .builder_on(&copy)
        .recovery(DIRECTORY, Target::Lsn(lsn))
        .map_err(|error| format!("preparing: {}", text(&error)))?;
    let plan = recovery.plan().clone();
    if plan.lsn > lsn || plan.epoch.lsn > plan.lsn || plan.damage.is_some() {
        return Err(format!("a plan that cannot be: {plan:?}"));
    }
    let done = recovery.apply().map_err(|error| format!("applying {plan:?}: {}", text(&error)))?;
    if done != plan {
        return Err(format!("{plan:?} became {done:?}"));
    }
    let found = look(&copy, setting).map_err(|wrong| format!("{plan:?}: {wrong}"))?;
    let states = past.at(lsn);
    if !states.iter().any(|(_, state)| *state == found) {
        let shown: Vec<_> = states
            .iter()
            .map(|(end, state)| format!("against that of LSN {end}: {}", found.difference(state)))
            .collect();
        return Err(format!("{plan:?}: none of the states of that time: {}", shown.join("; ")));
    }
    Ok((copy, found))
}

/// Opens, reads everything, verifies and closes.
fn look(disk: &SimDisk, setting: &Setting) -> Result<Model, Wrong> {
    let env: Env =
        setting.builder_on(disk).open(DIRECTORY).map_err(|error| format!("opening: {}", text(&error)))?;
    let found = engine::state(&env).map_err(|error| format!("reading: {}", text(&error)))?;
    clean(&env)?;
    env.close().map_err(|error| format!("closing: {}", text(&error)))?;
    Ok(found)
}

fn some_past(seed: u64, lives: usize, count: usize) -> Result<(Dice, Setting, SimDisk, Past), Wrong> {
    let mut dice = Dice::new(seed);
    let journal = Journal::new().epochs(dice.pick(&[0, 1, 3, 32]));
    let setting = Setting { journal: Some(journal), ..Setting::any_small(&mut dice) };
    let shape = Shape {
        keys: dice.pick(&[10, 60, 300]),
        value_max: dice.pick(&[200, 3000, 20_000]),
        stem: setting.stem(),
        ..Shape::small()
    };
    let mut disk = SimDisk::new(seed);
    let mut past = Past { states: vec![(Lsn(0), Model::default())] };
    for life in 0..lives {
        let steps = shape.steps(&mut dice, count);
        disk = live(disk, &setting, &steps, &mut past, &mut dice)
            .map_err(|wrong| format!("life {life}, {setting:?}: {wrong}"))?;
    }
    Ok((dice, setting, disk, past))
}

/// One seed: lives, then going back to many LSNs, every eighth seed to all; from one of them on it lives and
/// goes back again.
///
/// # Errors
/// Whatever is not as it was.
pub fn explore(seed: u64) -> Result<(), Wrong> {
    let lives = 1 + (seed % 4) as usize;
    let (mut dice, setting, mut disk, mut past) = some_past(seed, lives, 25)?;
    let shape = Shape { keys: 30, value_max: 3000, stem: setting.stem(), ..Shape::small() };
    for round in 0..3 {
        let wrong = |wrong: Wrong| format!("round {round}, {setting:?}: {wrong}");
        let (oldest, lsns) = reachable(&disk, &setting, &past).map_err(wrong)?;
        let refused = oldest
            .0
            .checked_sub(1)
            .map(|lsn| setting.builder_on(&disk).recovery(DIRECTORY, Target::Lsn(Lsn(lsn))).map(|_| ()));
        if refused.is_some_and(|outcome| outcome.is_ok()) {
            return Err(wrong("went back beyond the oldest epoch".to_owned()));
        }
        let some: Vec<Lsn> = (0..6).map(|_| Lsn(dice.pick(&lsns).0 + dice.pick(&[0, 0, 0, 8]))).collect();
        // All of them with some seeds.
        let chosen = if seed.is_multiple_of(8) { &lsns } else { &some };
        for &lsn in chosen.iter().filter(|lsn| lsns.iter().any(|known| known >= lsn)) {
            go_back(&disk, &setting, lsn, &past).map_err(|why| wrong(format!("to LSN {lsn}: {why}")))?;
        }
        let lsn = dice.pick(&lsns);
        let (gone_back, found) =
            go_back(&disk, &setting, lsn, &past).map_err(|why| wrong(format!("to LSN {lsn}: {why}")))?;
        past.cut(lsn, found);
        let steps = shape.steps(&mut dice, 15);
        disk = live(gone_back, &setting, &steps, &mut past, &mut dice)
            .map_err(|why| wrong(format!("gone back to LSN {lsn}: {why}")))?;
    }
    Ok(())
}

/// One way back, the power failing after each of its calls: what is found is the state before it or after it,
/// and it can be done again.
///
/// # Errors
/// Whatever else is found.
pub fn every_call(seed: u64) -> Result<(), Wrong> {
    let (mut dice, setting, disk, past) = some_past(seed, 2, 15)?;
    let (_, lsns) = reachable(&disk, &setting, &past)?;
    let lsn = dice.pick(&lsns);
    let (_, after) = go_back(&disk, &setting, lsn, &past)?;
    let apply = |disk: &SimDisk| {
        setting.builder_on(disk).recovery(DIRECTORY, Target::Lsn(lsn)).and_then(sablecat::Recovery::apply)
    };
    let whole = disk.crash_as(Survival::Everything, 1);
    let begin = whole.calls();
    apply(&whole).map_err(|error| text(&error))?;
    for call in 0..=whole.calls() - begin {
        let failing = disk.crash_as(Survival::Everything, 1);
        failing.crash_at(failing.calls() + call);
        let done = apply(&failing).is_ok();
        for survival in Survival::ALL {
            let wrong =
                |wrong: Wrong| format!("to LSN {lsn}, call {call}, {survival:?}, {setting:?}: {wrong}");
            let found = failing.crash_as(survival, seed ^ call);
            // An opening that sees only part of the log's files in their new place must cope.
            let state = look(&found.crash_as(Survival::Everything, 1), &setting).map_err(wrong)?;
            if state != after && (done || state != *past.newest()) {
                return Err(wrong(format!(
                    "neither before nor after (done: {done}): {}",
                    state.difference(&after)
                )));
            }
            let again = apply(&found);
            let (state, applied) = (look(&found, &setting).map_err(wrong)?, again.is_ok());
            // Once it is done the log ends at the target, or at the last commit before it.
            if applied && state != after {
                return Err(wrong(format!(
                    "done again it gives another state: {}",
                    state.difference(&after)
                )));
            }
        }
    }
    Ok(())
}

/// Going back to times and epochs.
///
/// # Errors
/// Whatever is not as it was then.
pub fn times(seed: u64) -> Result<(), Wrong> {
    let mut dice = Dice::new(seed);
    let setting = Setting { journal: Some(Journal::new()), ..Setting::any_small(&mut dice) };
    let disk = SimDisk::new(seed);
    let failed = |error: sablecat::Error| text(&error);
    let mut moments = Vec::new();
    let env = setting.builder_on(&disk).open(DIRECTORY).map_err(failed)?;
    let database = env.database("d").map_err(failed)?;
    for n in 0..5u64 {
        database.insert(b"k", n.to_be_bytes()).map_err(failed)?;
        let noted = wait_until_after(wait_until_after(Moment { ms: 0 }));
        moments.push((noted, n));
        wait_until_after(noted);
        if n % 2 == 1 {
            env.checkpoint().map_err(failed)?;
        }
    }
    drop(database);
    env.close().map_err(failed)?;
    let value = |disk: &SimDisk| -> Result<Option<Vec<u8>>, Wrong> {
        let env = setting.builder_on(disk).open(DIRECTORY).map_err(failed)?;
        env.database("d").and_then(|database| database.get(b"k")).map_err(failed)
    };
    let epochs = setting.builder_on(&disk).history(DIRECTORY).map_err(failed)?.epochs;
    for (moment, n) in moments {
        if epochs[0].time > moment {
            continue;
        }
        let copy = disk.crash_as(Survival::Everything, 1);
        let plan = setting
            .builder_on(&copy)
            .recovery(DIRECTORY, Target::Time(moment))
            .and_then(sablecat::Recovery::apply)
            .map_err(failed)?;
        let found = value(&copy)?;
        if found.as_deref() != Some(&n.to_be_bytes()[..]) {
            return Err(format!(
                "at {moment} it was {n}, and is {found:?} after {plan:?}; epochs {epochs:?}"
            ));
        }
    }
    for epoch in epochs {
        let copy = disk.crash_as(Survival::Everything, 1);
        let back = setting
            .builder_on(&copy)
            .recovery(DIRECTORY, Target::Epoch(epoch.number))
            .and_then(sablecat::Recovery::apply);
        let plan = back.map_err(failed)?;
        if (plan.lsn, plan.commits) != (epoch.lsn, 0) {
            return Err(format!("{epoch:?} became {plan:?}"));
        }
    }
    Ok(())
}

/// Waits for the clock to be well past a moment, so that whatever follows is told apart from what was before;
/// says what time it is then.
fn wait_until_after(moment: Moment) -> Moment {
    let begin = Moment::from(std::time::SystemTime::now()).ms.max(moment.ms);
    loop {
        let now = Moment::from(std::time::SystemTime::now());
        if now.ms > begin + 20 {
            return now;
        }
        std::thread::yield_now();
    }
}
