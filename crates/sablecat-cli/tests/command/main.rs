//! The command, run as its users run it.

#[path = "../support/mod.rs"]
mod support;

mod address_space;
mod backup;
mod commands;
mod compression;
mod conditions;
mod cut_off;
mod documentation;
mod encryption;
mod expiry;
mod full_disk;
mod globals;
mod held;
mod indices;
mod kinds;
mod left_behind;
mod locks;
mod log;
mod odd_text;
mod others;
mod papers;
mod papers_results;
mod parts;
mod portable;
mod read_only;
mod reading;
mod sql;
mod sql_papers;
mod temporary;
mod text;
mod tuples;
mod whole;
