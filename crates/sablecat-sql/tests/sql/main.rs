//! SQL on sablecat: statements, connections side by side, processes that are killed, and the same on SQLite's
//! own tree.

use sablecat_sql as _;

mod asked;
mod backup;
mod blobs;
mod conflicts;
mod cursors;
mod dice;
mod differential;
mod directory;
mod early_or_late;
mod examples;
mod families;
mod generated;
mod half_done;
mod isolation;
mod joined;
mod kept;
mod key_value;
mod killed;
mod kinds;
mod kinds_compared;
mod logic;
#[cfg(feature = "mimalloc")]
mod memory;
mod read_ahead;
mod read_on;
mod row_ids;
mod sequences;
mod side_by_side;
mod sizes;
mod statements;
