//! Progress bars on standard error, for long work and only when somebody is watching.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar that shows itself on a terminal and is silent elsewhere.
pub(crate) struct Bar {
    bar: ProgressBar,
}

impl Bar {
    pub(crate) fn new() -> Bar {
        // indicatif draws on standard error, and only if that is a terminal.
        let bar = ProgressBar::new(0);
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len}  {elapsed}, {eta} to go  {msg}");
        bar.set_style(style.expect("the template is well formed"));
        Bar { bar }
    }

    pub(crate) fn set(&self, done: u64, total: u64) {
        self.bar.set_length(total);
        self.bar.set_position(done);
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl sablecat_papers::Progress for Bar {
    fn start(&mut self, steps: u64) {
        self.bar.reset();
        self.set(0, steps);
    }

    fn step(&mut self, doing: &str) {
        self.bar.set_message(doing.to_owned());
        self.bar.inc(1);
    }
}
