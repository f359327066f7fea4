//! Databases and their names; indices, and references from one to the other.

mod arranged;
mod damaged_databases;
mod database_stats;
mod databases;
mod databases_read;
mod index_cursors;
mod index_phantoms;
mod indices;
mod indices_names;
mod indices_of_queues;
mod indices_verified;
mod joins;
mod names;
mod names_beside;
mod references;
