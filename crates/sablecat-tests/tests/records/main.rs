//! What is stored, by each access method, and what is done with it.

use sablecat_tests as support;

mod basics;
mod counted;
mod cursors;
mod data_store;
mod expiring;
mod expiring_cursors;
mod expiring_sweeps;
mod fill;
mod globals;
mod hash_tables;
mod holds;
mod large_values;
mod listed_leaves;
mod long_keys;
mod lsm;
mod multi;
mod multi_cursors;
mod multi_phantoms;
mod numbered;
mod numbered_cursors;
mod read_model;
mod reading_ahead;
mod remove_range;
mod removed_ranges;
mod sequences;
mod shown_noted;
mod temporary;
mod typed;
mod verbs;
mod verbs_model;
mod whole_leaves;
