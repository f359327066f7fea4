//! The keyring: the data keys of an environment, as one process has them, and what is enciphered with them.
//!
//! ```text
//! trailer of a block   key u32 | nonce 12 | tag 16    behind the page, whose bytes from 4 on are enciphered
//! body of a record     key u32 | salt 12 | count u64 | enciphered | tag 16
//! ```
//!
//! Authenticated with the text: the environment's uuid, the number of the key, and of a block its number, of
//! a record its kind and version. So a block that was moved, or comes from another environment, is found,
//! though its checksum be right. It is not found that a block is an older one of the same place, unless the
//! checksum by which it is named tells (pages/volume/codec.rs).
//!
//! *Rotation.* A new data key is used for what is written from then on; those there are stay, for what was
//! written with them. Other processes learn of it by a word that they share ([`Keyring::watch`]), which is
//! looked at whenever something is enciphered; or when they meet it.

mod changing;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use sablecat_os::atomic::{AtomicU64, Ordering};
use sablecat_os::disk::File;
use zeroize::Zeroizing;

use super::aead::{self, Aead, NONCE_BYTES, SecretBytes, TAG_BYTES};
use super::key_block::{KeyBlock, Wrapped};
use super::{BLOCK_BYTES, Cipher, Encryption, EncryptionKey, RECORD_BYTES, Refused};
use crate::error::{Error, ErrorKind, Result};

/// Bytes of the salt of an opening.
const SALT_BYTES: usize = 12;
/// Bytes before the text of a record: key, salt, count.
const HEAD_BYTES: usize = 4 + SALT_BYTES + 8;
/// Keys of earlier openings that are kept for readers of the log.
const OPENED_MAX: usize = 16;

const _: () = assert!(BLOCK_BYTES == 4 + NONCE_BYTES + TAG_BYTES);
const _: () = assert!(RECORD_BYTES == HEAD_BYTES + TAG_BYTES);

/// The keys of an environment.
pub(crate) struct Keyring {
    file: Arc<dyn File>,
    path: PathBuf,
    uuid: [u8; 16],
    cipher: Cipher,
    /// The user's key.
    by: Mutex<EncryptionKey>,
    known: RwLock<Arc<OpenedKeys>>,
    /// What records of earlier openings were met with.
    opened: Mutex<Vec<(Salt, Arc<Aead>)>>,
    /// Held by the thread that changes the keys.
    changing: Mutex<()>,
    /// What others tell; and up to which number the newest key block was looked for.
    watch: OnceLock<KeyringWatch>,
    looked: AtomicU64,
}

/// What the processes that share an environment tell each other.
struct KeyringWatch {
    /// The number of the newest key block that any process has written.
    newest: Box<dyn Fn() -> u64 + Send + Sync>,
    /// Whether this process was taken for dead: then another may be changing the keys.
    fence: Box<dyn Fn() -> Result<()> + Send + Sync>,
}

/// What opening records of one salt are of.
type Salt = (u32, [u8; SALT_BYTES]);

/// What a key block says, opened.
struct OpenedKeys {
    /// The key block's.
    number: u64,
    keys: Vec<Arc<DataKey>>,
    newest: Arc<DataKey>,
}

struct DataKey {
    number: u32,
    bytes: SecretBytes,
    /// What this opening enciphers log records with.
    session: OnceLock<Session>,
}

struct Session {
    salt: [u8; SALT_BYTES],
    aead: Aead,
    records: AtomicU64,
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring")
            .field("path", &self.path)
            .field("cipher", &self.cipher)
            .field("newest", &self.known().newest.number)
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that is done with it leaves it half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn refuse(path: &Path, cipher: Cipher, why: &str) -> Error {
    Error::new(
        ErrorKind::EncryptionKey,
        format!("{}: the environment is encrypted ({}), and {why}", path.display(), cipher.name()),
    )
}

/// The keys of a key block, those that were known before as they were.
fn open_all(block: &KeyBlock, by: &EncryptionKey, before: &[Arc<DataKey>]) -> Option<OpenedKeys> {
    let open = |wrapped: &Wrapped| {
        let known = before.iter().find(|key| key.number == wrapped.number);
        let bytes = wrapped.open(block, by)?;
        Some(match known {
            Some(key) => Arc::clone(key),
            None => Arc::new(DataKey { number: wrapped.number, bytes, session: OnceLock::new() }),
        })
    };
    let keys: Vec<_> = block.keys.iter().map(open).collect::<Option<_>>()?;
    let newest = Arc::clone(keys.iter().find(|key| key.number == block.newest)?);
    Some(OpenedKeys { number: block.number, keys, newest })
}

impl DataKey {
    fn block(&self, cipher: Cipher, number: u64) -> Aead {
        Aead::new(cipher, &aead::derive(&self.bytes, b"block", &number.to_le_bytes()))
    }

    fn log(&self, cipher: Cipher, salt: &[u8; SALT_BYTES]) -> Aead {
        Aead::new(cipher, &aead::derive(&self.bytes, b"log", salt))
    }
}

impl Keyring {
    /// Writes the first key of an environment that is made. Durable when it returns.
    pub(crate) fn create(
        encryption: &Encryption,
        uuid: [u8; 16],
        file: &dyn File,
        path: &Path,
    ) -> Result<()> {
        let key = Zeroizing::new(aead::random());
        let mut block = KeyBlock { number: 1, uuid, cipher: encryption.cipher, newest: 1, keys: Vec::new() };
        block.keys = vec![Wrapped::new(&block, 1, &key, &encryption.key)];
        block.write(file, path)?;
        KeyBlock { number: 2, ..block }.write(file, path)
    }

    /// The keys in the file of a main volume, and what is wrong with copies of them that are not needed.
    ///
    /// # Errors
    /// `EncryptionKey` if no user's key is given, or another than opens them; corruption; those of the file.
    pub(crate) fn read(
        file: Arc<dyn File>,
        path: &Path,
        (cipher, uuid): (Cipher, [u8; 16]),
        encryption: Option<&Encryption>,
    ) -> Result<(Keyring, Vec<String>)> {
        let Some(encryption) = encryption else {
            return Err(refuse(
                path,
                cipher,
                "no key was given; give the key it was created with, or the key it was changed to since \
                 (Builder::encryption_key, --key-file, --key-variable)",
            ));
        };
        let (block, complaints) = KeyBlock::read(&*file, path, uuid, cipher)?;
        let known = open_all(&block, &encryption.key, &[]).ok_or_else(|| {
            refuse(
                path,
                cipher,
                "the key that was given is not its key; give the key it was created with, or the key it was \
                 changed to since",
            )
        })?;
        let keyring = Keyring {
            file,
            path: path.to_owned(),
            uuid,
            cipher,
            by: Mutex::new(encryption.key.clone()),
            known: RwLock::new(Arc::new(known)),
            opened: Mutex::default(),
            changing: Mutex::new(()),
            watch: OnceLock::new(),
            looked: AtomicU64::new(0),
        };
        Ok((keyring, complaints))
    }

    /// How it is enciphered.
    pub(crate) fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// The number of the key that is used for what this process writes from now on: the newest, if it can
    /// have that.
    pub(crate) fn newest(&self) -> u32 {
        self.known_now().newest.number
    }

    /// How many keys there are.
    pub(crate) fn count(&self) -> usize {
        self.known().keys.len()
    }

    fn known(&self) -> Arc<OpenedKeys> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn adopt(&self, known: OpenedKeys) {
        let mut now = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if now.number < known.number {
            *now = Arc::new(known);
        }
    }

    /// Has this process look at the file when another has written a key block with a higher number than it
    /// knows: `newest` says so. It writes none if `fence` fails.
    pub(crate) fn watch(
        &self,
        newest: impl Fn() -> u64 + Send + Sync + 'static,
        fence: impl Fn() -> Result<()> + Send + Sync + 'static,
    ) {
        // Only the first of a volume's regions is its own.
        let _ = self.watch.set(KeyringWatch { newest: Box::new(newest), fence: Box::new(fence) });
    }

    /// The number of the newest key block that this process has seen.
    pub(crate) fn block_number(&self) -> u64 {
        self.known().number
    }

    /// What there is to encipher with now.
    fn known_now(&self) -> Arc<OpenedKeys> {
        let known = self.known();
        let newest = self.watch.get().map_or(0, |watch| (watch.newest)());
        // Once for each: it may be that it cannot be opened.
        if newest <= known.number || self.looked.fetch_max(newest, Ordering::Relaxed) >= newest {
            return known;
        }
        self.refresh();
        self.known()
    }

    /// Looks whether another process has added a key, and goes on with that. If it cannot be read or opened,
    /// as after the user's key was changed, this one goes on with those that it has: they stay good.
    fn refresh(&self) {
        if let Ok((_, Some(known))) = self.look() {
            self.adopt(known);
        }
    }

    /// The key block as it is now, and what it says, if the user's key opens it.
    fn look(&self) -> Result<(KeyBlock, Option<OpenedKeys>)> {
        let (block, _) = KeyBlock::read(&*self.file, &self.path, self.uuid, self.cipher)?;
        let known = open_all(&block, &lock(&self.by), &self.known().keys);
        Ok((block, known))
    }

    /// The key of a number, looked for in the file if it is not known yet. One look decides: what the next
    /// one finds may have been written in between.
    fn key(&self, number: u32) -> std::result::Result<Arc<DataKey>, Refused> {
        let find = |known: &OpenedKeys| known.keys.iter().find(|key| key.number == number).cloned();
        if let Some(key) = find(&self.known()) {
            return Ok(key);
        }
        let (block, known) = self.look().map_err(Refused::Unread)?;
        let key = known.as_ref().and_then(find);
        known.into_iter().for_each(|known| self.adopt(known));
        if let Some(key) = key {
            return Ok(key);
        }
        Err(if block.keys.iter().any(|key| key.number == number) {
            Refused::NoKey(format!(
                "it is encrypted with data key {number}, which was added after the environment's key was \
                 changed; give this process the new key (Env::change_encryption_key), or open the \
                 environment again with it"
            ))
        } else {
            Refused::Damaged(format!(
                "it is encrypted with data key {number}, which the environment does not have"
            ))
        })
    }

    /// A new number for a volume whose blocks are not enciphered, by which [`Keyring::is_plain`] knows it:
    /// half of it is random, the other half proves the first, with the number of the volume.
    pub(crate) fn plain_uuid(&self, volume: u8) -> [u8; 16] {
        let random: [u8; 8] = aead::random();
        self.prove_plain(volume, random)
    }

    /// Whether the blocks of the volume of this number are not enciphered. Nobody can say so who does not
    /// have the keys; that a random uuid seems to happens once in 2^64.
    pub(crate) fn is_plain(&self, volume: u8, uuid: &[u8; 16]) -> bool {
        let random = std::array::from_fn(|n| uuid[n]);
        self.prove_plain(volume, random) == *uuid
    }

    /// By the first key, which stays whatever is changed.
    fn prove_plain(&self, volume: u8, random: [u8; 8]) -> [u8; 16] {
        let mut of = [0; 25];
        of[..16].copy_from_slice(&self.uuid);
        of[16] = volume;
        of[17..].copy_from_slice(&random);
        let proof = aead::derive(&self.known().keys[0].bytes, b"plain", &of);
        std::array::from_fn(|n| if n < 8 { random[n] } else { proof[n - 8] })
    }

    /// What is authenticated with everything: whose it is, and which key it has.
    fn known_of(&self, key: u32, of: u64) -> [u8; 28] {
        let mut known = [0; 28];
        known[..16].copy_from_slice(&self.uuid);
        known[16..20].copy_from_slice(&key.to_le_bytes());
        known[20..].copy_from_slice(&of.to_le_bytes());
        known
    }

    /// Enciphers a page for a block, and says in the trailer how.
    pub(crate) fn seal_block(&self, number: u64, page: &mut [u8], trailer: &mut [u8]) {
        let known = self.known_now();
        let (key, nonce) = (&known.newest, aead::random());
        let tag = key.block(self.cipher, number).seal(&nonce, &self.known_of(key.number, number), page);
        trailer[..4].copy_from_slice(&key.number.to_le_bytes());
        trailer[4..16].copy_from_slice(&nonce);
        trailer[16..BLOCK_BYTES].copy_from_slice(&tag);
    }

    /// Deciphers the page of a block.
    pub(crate) fn open_block(
        &self,
        number: u64,
        page: &mut [u8],
        trailer: &[u8],
    ) -> std::result::Result<(), Refused> {
        let key = self.key(Self::key_of(trailer))?;
        let nonce = std::array::from_fn(|n| trailer[4 + n]);
        let tag = std::array::from_fn(|n| trailer[16 + n]);
        let aead = key.block(self.cipher, number);
        if aead.open(&nonce, &self.known_of(key.number, number), page, &tag) {
            return Ok(());
        }
        Err(Refused::Damaged(
            "its content is not what was encrypted for this place: it was changed, or comes from another \
             place"
                .into(),
        ))
    }

    /// Which key a block is enciphered with, as its trailer says.
    pub(crate) fn key_of(trailer: &[u8]) -> u32 {
        trailer.first_chunk().map_or(0, |number| u32::from_le_bytes(*number))
    }

    /// Enciphers the body of a log record, from `from` on, of a kind and version.
    pub(crate) fn seal_record(&self, of: [u8; 2], bytes: &mut Vec<u8>, from: usize) {
        let known = self.known_now();
        let key = &known.newest;
        let session = key.session.get_or_init(|| {
            let salt = aead::random();
            Session { salt, aead: key.log(self.cipher, &salt), records: AtomicU64::new(0) }
        });
        // Relaxed: only uniqueness matters.
        let count = session.records.fetch_add(1, Ordering::Relaxed);
        let mut head = [0; HEAD_BYTES];
        head[..4].copy_from_slice(&key.number.to_le_bytes());
        head[4..16].copy_from_slice(&session.salt);
        head[16..].copy_from_slice(&count.to_le_bytes());
        bytes.splice(from..from, head);
        let known = self.known_of(key.number, u64::from(u16::from_le_bytes(of)));
        let tag = session.aead.seal(&nonce(count), &known, &mut bytes[from + HEAD_BYTES..]);
        bytes.extend_from_slice(&tag);
    }

    /// Deciphers the body of a log record into `text`.
    pub(crate) fn open_record(
        &self,
        of: [u8; 2],
        body: &[u8],
        text: &mut Vec<u8>,
    ) -> std::result::Result<(), Refused> {
        let changed = || Refused::Damaged("its body is not what was encrypted".into());
        let (head, rest) = body.split_first_chunk::<HEAD_BYTES>().ok_or_else(changed)?;
        let (body, tag) = rest.split_last_chunk::<TAG_BYTES>().ok_or_else(changed)?;
        let key = self.key(Self::key_of(head))?;
        let salt = std::array::from_fn(|n| head[4 + n]);
        let count = u64::from_le_bytes(std::array::from_fn(|n| head[16 + n]));
        let aead = self.log_of(&key, salt);
        text.clear();
        text.extend_from_slice(body);
        let known = self.known_of(key.number, u64::from(u16::from_le_bytes(of)));
        if aead.open(&nonce(count), &known, text, tag) { Ok(()) } else { Err(changed()) }
    }

    /// What opens the records of an opening.
    fn log_of(&self, key: &DataKey, salt: [u8; SALT_BYTES]) -> Arc<Aead> {
        let mut opened = lock(&self.opened);
        if let Some((_, aead)) = opened.iter().find(|(of, _)| *of == (key.number, salt)) {
            return Arc::clone(aead);
        }
        let aead = Arc::new(key.log(self.cipher, &salt));
        if opened.len() == OPENED_MAX {
            opened.remove(0);
        }
        opened.push(((key.number, salt), Arc::clone(&aead)));
        aead
    }
}

fn nonce(count: u64) -> [u8; NONCE_BYTES] {
    let mut nonce = [0; NONCE_BYTES];
    nonce[4..].copy_from_slice(&count.to_le_bytes());
    nonce
}

#[cfg(test)]
mod tests {
    use std::io;

    use sablecat_os::disk::between::{Between, Call, Judge, Verdict};
    use sablecat_os::disk::{Disk, How};
    use sablecat_os::sim::{SimDisk, Survival};

    use super::super::key_block::KEYS_MAX;
    use super::*;

    const CIPHERS: [Cipher; 2] = [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305];

    fn file(disk: &SimDisk) -> Arc<dyn File> {
        let file = disk.open(Path::new("v"), How { create: true, ..How::default() }).unwrap();
        file.set_len(131_072).unwrap();
        file
    }

    fn encryption(cipher: Cipher, n: u8) -> Encryption {
        Encryption { key: EncryptionKey::from_bytes(&[n; 32]), cipher }
    }

    impl Keyring {
        /// Keys of an environment that is nowhere else.
        pub(crate) fn of_nobody(cipher: Cipher) -> Keyring {
            made(&SimDisk::new(1), cipher)
        }
    }

    fn made(disk: &SimDisk, cipher: Cipher) -> Keyring {
        Keyring::create(&encryption(cipher, 1), [3; 16], &*file(disk), Path::new("v")).unwrap();
        again(disk, cipher, 1).unwrap()
    }

    fn again(disk: &SimDisk, cipher: Cipher, n: u8) -> Result<Keyring> {
        let encryption = encryption(cipher, n);
        Keyring::read(file(disk), Path::new("v"), (cipher, [3; 16]), Some(&encryption)).map(|found| found.0)
    }

    /// Fails one read, once it is asked for that.
    #[derive(Clone, Debug, Default)]
    struct OneRead(Arc<AtomicU64>);

    impl Judge for OneRead {
        fn judge(&self, call: Call) -> Verdict {
            if call == Call::Read && self.0.swap(0, Ordering::SeqCst) != 0 {
                Verdict::Fail(io::Error::from_raw_os_error(5))
            } else {
                Verdict::Make
            }
        }
    }

    /// Not damage, by which a log would end, nor a wrong key.
    #[test]
    fn keys_that_cannot_be_read_for_a_moment_are_no_damage() {
        let (disk, one) = (SimDisk::new(1), OneRead::default());
        let keys = made(&disk, Cipher::Aes256Gcm);
        let between = Between::new(disk, one.clone());
        let encryption = encryption(Cipher::Aes256Gcm, 1);
        let file = between.open(Path::new("v"), How::default()).unwrap();
        let of = (Cipher::Aes256Gcm, [3; 16]);
        let (other, _) = Keyring::read(file, Path::new("v"), of, Some(&encryption)).unwrap();
        let number = keys.rotate().unwrap();
        one.0.store(1, Ordering::SeqCst);
        let Err(Refused::Unread(error)) = other.key(number) else { panic!("it was not read") };
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(other.key(number).is_ok_and(|key| key.number == number));
    }

    /// A number that says so is good for one volume of one environment, whatever keys come after.
    #[test]
    fn that_a_volume_is_not_encrypted_is_proved_by_its_number() {
        for cipher in CIPHERS {
            let disk = SimDisk::new(1);
            let keys = made(&disk, cipher);
            let uuid = keys.plain_uuid(3);
            assert_ne!(uuid, keys.plain_uuid(3));
            keys.rotate().unwrap();
            keys.change(&EncryptionKey::from_bytes(&[2; 32])).unwrap();
            let keys = again(&disk, cipher, 2).unwrap();
            assert!(keys.is_plain(3, &uuid) && !keys.is_plain(2, &uuid));
            assert!(!made(&SimDisk::new(2), cipher).is_plain(3, &uuid), "those of another environment");
            for bit in 0..128 {
                let mut other = uuid;
                other[bit / 8] ^= 1 << (bit % 8);
                assert!(!keys.is_plain(3, &other), "bit {bit}");
            }
        }
    }

    #[test]
    fn a_block_is_opened_in_its_place_alone_and_as_it_was_sealed() {
        for cipher in CIPHERS {
            let disk = SimDisk::new(1);
            let keys = made(&disk, cipher);
            let (text, mut page, mut trailer) = ([9; 100], [9; 100], [0; BLOCK_BYTES]);
            keys.seal_block(5, &mut page, &mut trailer);
            assert_ne!(page, text);
            let mut opened = page;
            again(&disk, cipher, 1).unwrap().open_block(5, &mut opened, &trailer).unwrap();
            assert_eq!(opened, text);
            assert!(matches!(keys.open_block(6, &mut page.clone(), &trailer), Err(Refused::Damaged(_))));
            let other = made(&SimDisk::new(2), cipher);
            assert!(matches!(other.open_block(5, &mut page.clone(), &trailer), Err(Refused::Damaged(_))));
            for bit in 0..8 * (page.len() + trailer.len()) {
                let (mut page, mut trailer) = (page, trailer);
                let byte = page.iter_mut().chain(&mut trailer).nth(bit / 8).unwrap();
                *byte ^= 1 << (bit % 8);
                let refused = keys.open_block(5, &mut page, &trailer);
                assert!(matches!(refused, Err(Refused::Damaged(_))), "bit {bit}");
            }
            // Written again it is another text, with another nonce.
            let (mut once_more, mut its) = (text, [0; BLOCK_BYTES]);
            keys.seal_block(5, &mut once_more, &mut its);
            assert_ne!((once_more, its[4..16].to_vec()), (page, trailer[4..16].to_vec()));
        }
    }

    #[test]
    fn a_record_is_opened_as_what_it_is_alone() {
        for cipher in CIPHERS {
            let disk = SimDisk::new(1);
            let keys = made(&disk, cipher);
            let seal = |keys: &Keyring| {
                let mut bytes = b"head....text".to_vec();
                keys.seal_record([1, 2], &mut bytes, 8);
                assert_eq!((&bytes[..8], bytes.len()), (&b"head...."[..], 12 + RECORD_BYTES));
                bytes.split_off(8)
            };
            let (one, two) = (seal(&keys), seal(&keys));
            assert_ne!(one[16..], two[16..], "another count");
            // As after a restart, which goes on with another salt.
            let later = again(&disk, cipher, 1).unwrap();
            assert_ne!(seal(&later)[4..16], one[4..16]);
            let mut text = Vec::new();
            for body in [&one, &two] {
                later.open_record([1, 2], body, &mut text).unwrap();
                assert_eq!(text, b"text");
            }
            assert!(later.open_record([2, 2], &one, &mut text).is_err());
            assert!((0..one.len()).all(|len| later.open_record([1, 2], &one[..len], &mut text).is_err()));
            for bit in 0..8 * one.len() {
                let mut body = one.clone();
                body[bit / 8] ^= 1 << (bit % 8);
                assert!(later.open_record([1, 2], &body, &mut text).is_err(), "bit {bit}");
            }
        }
    }

    #[test]
    fn a_new_key_is_met_by_others_and_the_old_one_opens_what_it_sealed() {
        let (disk, cipher) = (SimDisk::new(1), Cipher::default());
        let (one, other) = (made(&disk, cipher), again(&disk, cipher, 1).unwrap());
        let sealed = |keys: &Keyring| {
            let (mut page, mut trailer) = ([9; 10], [0; BLOCK_BYTES]);
            keys.seal_block(1, &mut page, &mut trailer);
            (page, trailer)
        };
        let (mut page, trailer) = sealed(&one);
        assert_eq!(one.rotate().unwrap(), 2);
        assert_eq!((one.newest(), other.newest()), (2, 1));
        one.open_block(1, &mut page, &trailer).unwrap();
        let (mut page, trailer) = sealed(&one);
        assert_eq!(Keyring::key_of(&trailer), 2);
        other.open_block(1, &mut page, &trailer).unwrap();
        assert_eq!(other.newest(), 2);

        one.change(&EncryptionKey::from_bytes(&[2; 32])).unwrap();
        one.rotate().unwrap();
        let (mut page, trailer) = sealed(&one);
        assert!(matches!(other.open_block(1, &mut page.clone(), &trailer), Err(Refused::NoKey(_))));
        assert_eq!(other.rotate().unwrap_err().kind(), ErrorKind::EncryptionKey);
        assert_eq!(
            other.change(&EncryptionKey::from_bytes(&[9; 32])).unwrap_err().kind(),
            ErrorKind::EncryptionKey
        );
        other.change(&EncryptionKey::from_bytes(&[2; 32])).unwrap();
        other.open_block(1, &mut page, &trailer).unwrap();
        assert_eq!(again(&disk, cipher, 1).unwrap_err().kind(), ErrorKind::EncryptionKey);
        assert_eq!((again(&disk, cipher, 2).unwrap().newest(), one.count()), (3, 3));
        // None of the four copies has anything that the old one opens.
        let old = EncryptionKey::from_bytes(&[1; 32]);
        for at in super::super::key_block::COPIES_AT.into_iter().flatten() {
            let blank = SimDisk::new(1);
            let mut copy = vec![0; 4096];
            file(&disk).read_at(&mut copy, at).unwrap();
            file(&blank).write_at(&copy, at).unwrap();
            let (block, _) = KeyBlock::read(&*file(&blank), Path::new("v"), [3; 16], cipher).unwrap();
            assert!(block.keys.iter().all(|key| key.open(&block, &old).is_none()));
        }
    }

    /// What it wrote is read by the others, and not durable.
    #[test]
    fn who_is_killed_as_it_changes_the_keys_takes_none_away_with_the_next_power_failure() {
        let cipher = Cipher::default();
        let sealed = |keys: &Keyring| {
            let (mut page, mut trailer) = ([9; 10], [0; BLOCK_BYTES]);
            keys.seal_block(1, &mut page, &mut trailer);
            (page, trailer)
        };
        // So many that they are in several sectors, of which each is written or not.
        let whole = SimDisk::new(1);
        let one = made(&whole, cipher);
        (0..8).for_each(|_| _ = one.rotate().unwrap());
        whole.sync_dir(Path::new("")).unwrap();
        // As many calls as a rotation has, and more.
        for (killed, cut) in (0..12).flat_map(|killed| (0..12).map(move |cut| (killed, cut))) {
            for seed in 0..64 {
                let disk = whole.crash_as(Survival::Everything, seed);
                let one = again(&disk, cipher, 1).unwrap();
                disk.crash_at(disk.calls() + killed);
                let _ = one.rotate();
                disk.clear_faults();
                let other = again(&disk, cipher, 1).unwrap();
                let before = sealed(&other);
                disk.crash_at(disk.calls() + cut);
                let _ = other.rotate();
                let left = disk.crash(seed);
                let found = again(&left, cipher, 1);
                let found =
                    found.unwrap_or_else(|e| panic!("killed at {killed}, cut at {cut}, seed {seed}: {e}"));
                for (mut page, trailer) in [before, sealed(&other)] {
                    let opened = found.open_block(1, &mut page, &trailer);
                    assert!(opened.is_ok(), "killed at {killed}, cut at {cut}, seed {seed}: {opened:?}");
                }
            }
        }
    }

    #[test]
    fn who_is_taken_for_dead_as_it_changes_the_keys_writes_none_any_more() {
        let disk = SimDisk::new(1);
        let keys = made(&disk, Cipher::default());
        let looks = AtomicU64::new(0);
        keys.watch(
            || 0,
            move || if looks.fetch_add(1, Ordering::Relaxed) == 2 { Err(Error::fenced()) } else { Ok(()) },
        );
        assert_eq!(keys.rotate().unwrap_err().kind(), ErrorKind::Poisoned);
        // The key is there, and not in use.
        let found = again(&disk, Cipher::default(), 1).unwrap();
        assert_eq!((found.newest(), found.count()), (1, 2));
    }

    #[test]
    fn there_are_only_so_many_keys() {
        let disk = SimDisk::new(1);
        let keys = made(&disk, Cipher::default());
        for number in 2..=KEYS_MAX as u32 {
            assert_eq!(keys.rotate().unwrap(), number);
        }
        assert_eq!(keys.rotate().unwrap_err().kind(), ErrorKind::Exhausted);
        assert_eq!(again(&disk, Cipher::default(), 1).unwrap().count(), KEYS_MAX);
    }
}
