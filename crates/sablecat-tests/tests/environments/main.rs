//! Environments and their files: settings, volumes, copies, what is wrong with a disk.

mod changes;
mod changes_waiting;
mod compression;
mod compression_cost;
mod copy;
mod encryption;
mod foreign_names;
mod full_disk;
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
