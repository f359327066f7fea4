//! Settings: ways to open an environment that must make no difference to what it answers.

use std::sync::Arc;

use sablecat::{Builder, Cipher, Compression, Durability, EncryptionKey, Env, Journal, Place};
use sablecat_os::sim::SimDisk;

use crate::dice::Dice;
use crate::engine::REVERSED;
use crate::method;

/// Bytes that environments in memory alone may take: more than any sequence of steps fills.
const MEMORY: u64 = 1 << 30;

/// Where simulated environments live.
pub const DIRECTORY: &str = "/env";

/// How an environment is opened.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Bytes of a page, and of a block.
    pub page_size: usize,
    /// Bytes of a block that its page leaves free: 32 if it is encrypted.
    pub trailer: usize,
    /// What it is enciphered with.
    pub cipher: Option<Cipher>,
    /// How its pages are compressed, and those of its volumes.
    pub compression: Compression,
    /// Bytes of the cache; the engine takes at least 256 pages.
    pub cache: u64,
    /// The rung of single operations.
    pub durability: Durability,
    /// Bytes of the log's buffer.
    pub log_buffer: usize,
    /// Bytes of a log segment.
    pub log_segment: u64,
    /// What is kept to go back to.
    pub journal: Option<Journal>,
    /// Whether the log is written by writes that are durable by themselves.
    pub sync_io: bool,
    /// Volumes beside the main one, up to 2, with something of the databases `a`, `b` and `r` placed in them.
    pub volumes: u8,
}

impl Setting {
    /// Small in everything, so that every limit is met.
    pub fn small(page_size: usize, durability: Durability) -> Setting {
        Setting {
            page_size,
            trailer: 0,
            cipher: None,
            compression: Compression::None,
            cache: 0,
            durability,
            log_buffer: 65536,
            log_segment: 65536,
            journal: None,
            sync_io: false,
            volumes: 0,
        }
    }

    /// A small setting from a seed.
    pub fn any_small(dice: &mut Dice) -> Setting {
        let durability = dice.pick(&crate::step::RUNGS);
        let setting = Setting::small(dice.pick(&[512, 1024, 4096]), durability);
        let volumes = dice.pick(&[0, 0, 1, 2]);
        // Not of the dice themselves: what a seed means otherwise stays as it was.
        // In the smallest pages keys with a comparator would be shorter than those that are made up.
        let trailer = if setting.page_size == 512 { 0 } else { dice.clone().pick(&[0, 0, 8, 32]) };
        let ciphers = [None, Some(Cipher::Aes256Gcm), Some(Cipher::ChaCha20Poly1305)];
        let cipher = if trailer == 32 { dice.clone().pick(&ciphers) } else { None };
        let kinds = [Compression::Lz4, Compression::zstd(), Compression::Zstd { level: 1 }];
        // Only larger pages can be compressed. One seed in six.
        let (page_size, compression) = match dice.clone().below(18) {
            chance @ 0..3 => (dice.clone().pick(&[8192, 8192, 16384]), kinds[chance as usize]),
            _ => (setting.page_size, Compression::None),
        };
        Setting { volumes, trailer, cipher, page_size, compression, ..setting }
    }

    /// A small setting from a seed, which may have a journal and write its log in another way.
    pub fn any_journaled(dice: &mut Dice) -> Setting {
        let setting = Setting::any_small(dice);
        let journal = Journal::new().epochs(dice.pick(&[0, 1, 3])).keep_bytes(dice.pick(&[1, 1 << 18]));
        Setting { journal: dice.percent(40).then_some(journal), sync_io: dice.percent(30), ..setting }
    }

    /// Bytes from which on keys are nested.
    pub fn stem(&self) -> usize {
        (self.page_size - self.trailer) / 8 - 16
    }

    /// A builder that does nothing in the background.
    pub fn builder(&self) -> Builder {
        method::set_page_bytes(self.page_size - self.trailer);
        let builder = match &self.journal {
            Some(journal) => method::builder().journal(journal.clone()),
            None => method::builder(),
        };
        let builder = match self.cipher {
            Some(cipher) => builder.encryption(EncryptionKey::from_bytes(&[7; 32]), cipher),
            None => builder,
        };
        self.place(builder)
            .page_size(self.page_size)
            .trailer_bytes(self.trailer)
            .cache_size(self.cache)
            .durability(self.durability)
            .log_buffer_size(self.log_buffer)
            .log_segment_size(self.log_segment)
            .background(false)
            .sync_io(self.sync_io)
            .comparator(REVERSED, |a, b| b.cmp(a))
    }

    /// An environment in memory alone, in which the cache is all there is.
    pub fn in_memory(&self) -> sablecat::Result<Env> {
        Setting { cipher: None, compression: Compression::None, ..self.clone() }
            .builder()
            .cache_size(MEMORY)
            .in_memory()
    }

    /// Declares the volumes, and what is in them.
    fn place(&self, mut builder: Builder) -> Builder {
        for n in 1..=self.volumes {
            builder = builder.volume(format!("v{n}"), format!("v{n}.db"));
        }
        if self.compression != Compression::None {
            builder = builder.compression(self.compression);
            for n in 1..=self.volumes {
                builder = builder.volume_compression(format!("v{n}"), self.compression);
            }
        }
        if self.volumes > 0 {
            builder =
                builder.place(Place::database("b"), "v1").place(Place::keys("a", "common prefix "), "v1");
        }
        if self.volumes > 1 {
            builder =
                builder.place(Place::databases_beginning_with("r"), "v2").place(Place::keys("b", "m"), "v2");
        }
        builder
    }

    /// The builder on a simulated disk.
    pub fn builder_on(&self, disk: &SimDisk) -> Builder {
        self.builder().disk(Arc::new(disk.clone()))
    }
}
