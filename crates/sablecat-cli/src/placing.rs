//! Volumes on the command line: where files are, and what goes there.

use std::path::PathBuf;

use clap::Args;
use sablecat::{Builder, Compression, Place};

/// Under what the help shows them. Said of each: of all it would be said of whatever a command has after them
/// as well.
const HEADING: &str = "Volumes";

/// Bytes of a page of a new environment with compression, if nothing is said.
const PAGE_SIZE_COMPRESSED: usize = 32768;

/// Volumes to declare when the environment is opened.
#[derive(Debug, Args)]
pub(crate) struct Placing {
    /// A volume (data file) to add, or one that was moved to this path; repeatable
    #[arg(long = "volume", value_name = "NAME=PATH", value_parser = volume, help_heading = HEADING)]
    volumes: Vec<(String, PathBuf)>,
    /// What is placed in a volume from now on: DATABASE=VOLUME, BEGINNING*=VOLUME for databases,
    /// DATABASE:PREFIX*=VOLUME for keys; repeatable
    #[arg(long = "place", value_name = "WHAT=VOLUME", value_parser = place, help_heading = HEADING)]
    places: Vec<(Place, String)>,
    /// How pages that are written from now on are compressed: none, lz4, zstd, or zstd:LEVEL, for pages of 8
    /// KiB and more; VOLUME=HOW for the pages of one volume; repeatable
    #[arg(long = "compression", value_name = "HOW", value_parser = compression, help_heading = HEADING)]
    compressions: Vec<(String, Compression)>,
    /// A volume, added by this command, whose pages are not encrypted although the environment is; repeatable
    #[arg(long = "unencrypted-volume", value_name = "VOLUME", help_heading = HEADING)]
    unencrypted_volumes: Vec<String>,
    /// Page size of a new environment in bytes: a power of two from 512 to 65536. Default: 4096, and with
    /// compression 32768
    #[arg(long, value_name = "BYTES", help_heading = HEADING)]
    page_size: Option<usize>,
}

impl Placing {
    /// Whether there is nothing to declare, and so nothing to write down.
    pub(crate) fn is_empty(&self) -> bool {
        self.volumes.is_empty()
            && self.places.is_empty()
            && self.compressions.is_empty()
            && self.unencrypted_volumes.is_empty()
    }

    /// Whether there are files elsewhere than in the environment's directory.
    pub(crate) fn has_volumes(&self) -> bool {
        !self.volumes.is_empty()
    }

    /// Bytes of the pages of a new environment, if they are not as usual.
    pub(crate) fn page_size(&self) -> Option<usize> {
        let is_compressed = self.compressions.iter().any(|(_, how)| *how != Compression::None);
        self.page_size.or(is_compressed.then_some(PAGE_SIZE_COMPRESSED))
    }

    /// Has a builder declare them.
    pub(crate) fn declare(&self, builder: Builder) -> Builder {
        let builder = self.page_size.into_iter().fold(builder, Builder::page_size);
        let builder = self.volumes.iter().fold(builder, |builder, (name, path)| builder.volume(name, path));
        let builder =
            self.places.iter().fold(builder, |builder, (place, volume)| builder.place(place.clone(), volume));
        let builder = self.unencrypted_volumes.iter().fold(builder, Builder::volume_unencrypted);
        self.compressions
            .iter()
            .fold(builder, |builder, (volume, how)| builder.volume_compression(volume, *how))
    }
}

fn volume(text: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = text.split_once('=').ok_or("it has the form NAME=PATH")?;
    Ok((name.to_owned(), path.into()))
}

fn compression(text: &str) -> Result<(String, Compression), String> {
    let (volume, how) = text.split_once('=').unwrap_or(("main", text));
    Ok((volume.to_owned(), how.parse()?))
}

fn place(text: &str) -> Result<(Place, String), String> {
    let (what, volume) = text.rsplit_once('=').ok_or("it has the form WHAT=VOLUME")?;
    let place = match (what.strip_suffix('*'), what.split_once(':')) {
        (Some(beginning), None) => Place::databases_beginning_with(beginning),
        (Some(beginning), Some((database, _))) => {
            Place::keys(database, &beginning.as_bytes()[database.len() + 1..])
        }
        (None, None) => Place::database(what),
        (None, Some(_)) => return Err("keys are placed by a prefix: DATABASE:PREFIX*=VOLUME".into()),
    };
    Ok((place, volume.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_placed_is_a_database_some_or_keys() {
        let placed = |text| place(text).map(|(place, volume)| (place, volume.as_str().to_owned()));
        assert_eq!(placed("orders=v"), Ok((Place::database("orders"), "v".into())));
        assert_eq!(placed("log.*=v"), Ok((Place::databases_beginning_with("log."), "v".into())));
        assert_eq!(placed("*=v"), Ok((Place::databases_beginning_with(""), "v".into())));
        assert_eq!(placed("orders:2019=/*=v"), Ok((Place::keys("orders", "2019=/"), "v".into())));
        assert!(placed("orders").is_err() && placed("orders:2019=v").is_err());
        assert_eq!(compression("lz4"), Ok(("main".into(), Compression::Lz4)));
        assert_eq!(compression("v=zstd:7"), Ok(("v".into(), Compression::Zstd { level: 7 })));
        assert!(compression("v=").is_err() && compression("zip").is_err());
        assert_eq!(volume("v=/a=b/c"), Ok(("v".into(), "/a=b/c".into())));
    }
}
