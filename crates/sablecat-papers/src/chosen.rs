//! Which of the peers that are named each suite is run beside: those that it knows.
//!
//! The suites of SQL and that of the 3n+1 problem have peers of their own, and all others those that
//! `sablecat-peers` lists. A suite that is run alone has to know every name. Of several, each takes its own;
//! a name that none of them knows is found out before the first begins.

use crate::charted::each_once;
use crate::contestant::Peers;
use crate::{Options, Suite, sql, threen1};

/// The suites, each with the options that it is to be run with.
///
/// # Errors
/// When a peer is named that no suite knows, or that only `sablecat-peers` could know, which is not there.
pub fn each(suites: &[Suite], options: &Options) -> Result<Vec<(Suite, Options)>, String> {
    let with = |vs: Option<Vec<String>>| Options { vs, ..options.clone() };
    match options.vs.as_deref() {
        Some(wanted) if suites.len() > 1 && !wanted.is_empty() => {
            let shares = shared_out(suites, wanted, &Peers::names())?;
            Ok(suites.iter().copied().zip(shares.into_iter().map(|names| with(Some(names)))).collect())
        }
        vs => Ok(suites.iter().map(|&suite| (suite, with(vs.map(<[String]>::to_vec)))).collect()),
    }
}

/// Of the names that are wanted those that each suite knows; `listed`: what `sablecat-peers` lists, or why
/// it does not.
fn shared_out(
    suites: &[Suite],
    wanted: &[String],
    listed: &Result<Vec<String>, String>,
) -> Result<Vec<Vec<String>>, String> {
    let known = |suite: &Suite| match suite {
        Suite::Tpcb | Suite::Wisconsin => sql::peers(),
        Suite::Threen1 => vec![threen1::PEER.to_owned()],
        _ => listed.clone().unwrap_or_default(),
    };
    let known: Vec<Vec<String>> = suites.iter().map(known).collect();
    if let Some(name) = wanted.iter().find(|name| !known.iter().any(|known| known.contains(name))) {
        let names = each_once(known.iter().flatten().map(String::as_str));
        let only = format!("there is no peer {name}, only {}", names.join(", "));
        return Err(listed.as_ref().err().map_or_else(|| only.clone(), |why| format!("{only}: {why}")));
    }
    let of = |known: &Vec<String>| wanted.iter().filter(|name| known.contains(name)).cloned().collect();
    Ok(known.iter().map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUITES: [Suite; 4] = [Suite::Wp43, Suite::Tpcb, Suite::Engine, Suite::Threen1];

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn each_suite_takes_the_peers_that_it_knows() {
        let listed = Ok(names(&["redb", "sqlite"]));
        let wanted = names(&["gtm", "sqlite", "redb", "bdb-sql"]);
        let both = names(&["sqlite", "redb"]);
        let expected = vec![both.clone(), names(&["sqlite", "bdb-sql"]), both, names(&["gtm"])];
        assert_eq!(shared_out(&SUITES, &wanted, &listed), Ok(expected));
    }

    #[test]
    fn a_peer_that_no_suite_knows_is_refused() {
        let wanted = names(&["gtm", "redb"]);
        let refused = |listed| shared_out(&SUITES, &wanted, &listed).unwrap_err();
        let only = "there is no peer redb, only bdb, sqlite, sqlite-system, bdb-sql, gtm";
        assert_eq!(refused(Ok(names(&["bdb", "sqlite"]))), only);
        let only = "there is no peer redb, only sqlite, sqlite-system, bdb-sql, gtm: it is not built";
        assert_eq!(refused(Err("it is not built".to_owned())), only);
    }
}
