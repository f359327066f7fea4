//! Where an environment is.

use std::path::Path;

use super::{DataStore, Env};

impl Env {
    /// The directory by which the environment is opened, as an absolute path, whatever has become the current
    /// directory since. None for an environment in memory alone. One that is [held in
    /// memory](super::Builder::held_in) is opened by the directory of its image.
    ///
    /// ```
    /// # fn main() -> sablecat::Result<()> {
    /// # let directory = std::env::temp_dir().join(format!("sablecat-doc-path-{}", std::process::id()));
    /// use sablecat::Env;
    ///
    /// let env = Env::open(&directory)?;
    /// assert_eq!(env.path(), Some(directory.as_path()));
    /// assert_eq!(Env::in_memory()?.path(), None);
    /// # drop(env);
    /// # std::fs::remove_dir_all(directory).unwrap();
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.core().path()
    }
}

impl DataStore {
    /// The directory by which the store is opened; none in memory alone: see [`Env::path`].
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.core.path()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::{Builder, Result};

    fn builder() -> Builder {
        Env::builder().background(false)
    }

    #[test]
    fn an_environment_says_by_which_directory_it_is_opened() -> Result<()> {
        let base = std::env::temp_dir().join(format!("sablecat-path-{}", std::process::id()));
        let [env, held, store]: [PathBuf; 3] = ["env", "held", "store"].map(|name| base.join(name));
        // As from elsewhere: the current directory is for all threads.
        let above: PathBuf = std::env::current_dir().unwrap().iter().skip(1).map(|_| "..").collect();
        let relative = above.join(env.strip_prefix("/").unwrap());
        let opened = builder().open(&relative)?;
        let path = opened.path().expect("it is on a disk");
        assert!(path.is_absolute() && path.ends_with(env.strip_prefix("/").unwrap()), "{}", path.display());
        drop(opened);
        assert_eq!(builder().read_only(true).open(&env)?.path(), Some(env.as_path()));
        assert_eq!(builder().held_in(base.join("memory")).open(&held)?.path(), Some(held.as_path()));
        assert_eq!(builder().open(&held)?.path(), Some(held.as_path()), "held there since");
        assert_eq!(builder().open_data_store(&store)?.path(), Some(store.as_path()));
        assert_eq!(Env::in_memory()?.path(), None);
        assert_eq!(builder().data_store_in_memory()?.path(), None);
        std::fs::remove_dir_all(base).unwrap();
        Ok(())
    }
}
