//! Environments and their files: settings, volumes, copies, what is wrong with a disk.

#[path = "../support/mod.rs"]
mod support;

mod changes;
mod changes_waiting;
#[cfg(all(feature = "lz4", feature = "zstd"))]
mod compression;
#[cfg(all(feature = "lz4", feature = "zstd"))]
mod compression_cost;
mod copy;
#[cfg(feature = "encryption")]
mod encryption;
mod foreign_names;
mod full_disk;
#[cfg(all(feature = "lz4", feature = "zstd"))]
mod full_disk_lives;
mod journal;
mod lost_superblock;
mod lost_writes;
mod old_formats;
mod present_format;
mod present_uses;
mod settings;
mod slips;
mod space;
mod spilled;
mod transaction_names;
mod unwinding;
mod volumes;
