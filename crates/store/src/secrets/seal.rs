//! The key of the secrets, and what it does: a value is sealed with ChaCha20-Poly1305 under a random nonce, together with
//! the name and the time that it belongs to, so that neither can be exchanged.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::digest;
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, Zeroizing};

use super::SecretError;
use crate::Error;
use crate::layout::{beside, sync_dir};

/// Bytes of a key.
const KEY: usize = 32;
/// Bytes of a nonce.
const NONCE: usize = 12;
/// More than a key file ever has.
const KEY_FILE_LIMIT: u64 = 1024;
/// The form of what is sealed.
const FORMAT: u32 = 1;

/// A secret as it is on disk and in backups: of no use without the key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed {
    /// Its name.
    pub name: String,
    /// When it was set.
    pub set_at: Timestamp,
    format: u32,
    /// Which key it was sealed with: the beginning of a checksum.
    key: String,
    nonce: String,
    value: String,
}

/// Where the key is.
#[derive(Debug, Clone)]
pub(super) struct KeyFile {
    pub(super) path: PathBuf,
    /// Whether somebody said so: then it is theirs to make.
    pub(super) configured: bool,
}

impl KeyFile {
    /// The key, if there is one.
    pub(super) fn read(&self) -> Result<Option<Key>, SecretError> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io(&self.path, &error).into()),
        };
        // As large as it can become, so that no copy is left behind by growing.
        let mut text = Zeroizing::new(Vec::with_capacity(KEY_FILE_LIMIT as usize));
        file.take(KEY_FILE_LIMIT).read_to_end(&mut text).map_err(|error| Error::io(&self.path, &error))?;
        let bad = || SecretError::BadKey(self.path.clone());
        let digits = Zeroizing::new(hex_decode(text.trim_ascii()).ok_or_else(bad)?);
        let bytes = <&[u8; KEY]>::try_from(digits.as_slice()).map_err(|_| bad())?;
        Ok(Some(Key { bytes: Zeroizing::new(*bytes) }))
    }

    /// The key, which must be there.
    pub(super) fn demand(&self) -> Result<Key, SecretError> {
        self.read()?
            .ok_or_else(|| SecretError::NoKey { path: self.path.clone(), configured: self.configured })
    }

    /// Makes the key. Whoever calls this is the only one who does.
    pub(super) fn make(&self) -> Result<Key, SecretError> {
        let mut bytes = Zeroizing::new([0; KEY]);
        fill(bytes.as_mut_slice())?;
        let mut text = Zeroizing::new(hex_encode(bytes.as_slice()));
        text.push('\n');
        write_whole(&self.path, &beside(&self.path, ".new"), text.as_bytes())?;
        Ok(Key { bytes })
    }

    /// Whether others than its owner may read it.
    pub(super) fn is_exposed(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|found| found.permissions().mode() & 0o077 != 0)
    }
}

/// The key of the secrets. It cannot be printed.
pub(super) struct Key {
    bytes: Zeroizing<[u8; KEY]>,
}

impl Key {
    /// Names the key without giving anything of it away.
    fn id(&self) -> String {
        let mut checksum = digest::Context::new(&digest::SHA256);
        checksum.update(b"slipway secret key\n");
        checksum.update(self.bytes.as_slice());
        hex_encode(&checksum.finish().as_ref()[..8])
    }

    fn cipher(&self) -> Result<LessSafeKey, SecretError> {
        // A key of the right length is never refused.
        let key = UnboundKey::new(&CHACHA20_POLY1305, self.bytes.as_slice());
        key.map(LessSafeKey::new).map_err(|_| SecretError::NoRandomness)
    }

    pub(super) fn seal(&self, name: &str, set_at: Timestamp, value: &str) -> Result<Sealed, SecretError> {
        let mut nonce = [0; NONCE];
        fill(&mut nonce)?;
        let mut text = Zeroizing::new(Vec::with_capacity(value.len() + CHACHA20_POLY1305.tag_len()));
        text.extend_from_slice(value.as_bytes());
        let sealing = self.cipher()?.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(bound_to(name, set_at)),
            &mut *text,
        );
        // Only texts of many gigabytes are refused.
        sealing.map_err(|_| SecretError::Value("is too long"))?;
        Ok(Sealed {
            name: name.to_owned(),
            set_at,
            format: FORMAT,
            key: self.id(),
            nonce: hex_encode(&nonce),
            value: hex_encode(&text),
        })
    }

    /// The value, if it was sealed under this name with this key, which is in that file.
    pub(super) fn open(
        &self,
        name: &str,
        sealed: &Sealed,
        file: &KeyFile,
    ) -> Result<Zeroizing<String>, SecretError> {
        if sealed.key != self.id() {
            return Err(SecretError::OtherKey { name: name.to_owned(), path: file.path.clone() });
        }
        let damaged = || SecretError::Damaged(name.to_owned());
        let nonce = hex_decode(sealed.nonce.as_bytes()).and_then(|nonce| <[u8; NONCE]>::try_from(nonce).ok());
        let mut text = Zeroizing::new(hex_decode(sealed.value.as_bytes()).ok_or_else(damaged)?);
        let (nonce, bound) = (nonce.ok_or_else(damaged)?, bound_to(name, sealed.set_at));
        let opened = self
            .cipher()?
            .open_in_place(Nonce::assume_unique_for_key(nonce), Aad::from(bound), &mut text)
            .map_err(|_| damaged())?;
        let value = std::str::from_utf8(opened).map_err(|_| damaged())?;
        Ok(Zeroizing::new(value.to_owned()))
    }
}

/// What a value belongs to; a name has no line breaks.
fn bound_to(name: &str, set_at: Timestamp) -> Vec<u8> {
    format!("slipway secret {FORMAT}\n{name}\n{set_at}").into_bytes()
}

fn fill(bytes: &mut [u8]) -> Result<(), SecretError> {
    SystemRandom::new().fill(bytes).map_err(|_| SecretError::NoRandomness)
}

/// Writes a file that is there as a whole or not at all, for its owner only.
pub(super) fn write_whole(path: &Path, temporary: &Path, content: &[u8]) -> Result<(), SecretError> {
    let write = || -> io::Result<()> {
        let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(temporary)?;
        // One that was left behind may have had other rights.
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(temporary, path)
    };
    if let Err(error) = write() {
        if let Err(left) = fs::remove_file(temporary)
            && left.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %temporary.display(), error = %left, "cannot remove an unfinished file");
        }
        return Err(Error::io(path, &error).into());
    }
    Ok(sync_dir(path.parent().unwrap_or(Path::new(".")))?)
}

fn hex_encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

fn hex_decode(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    if !text.len().is_multiple_of(2) {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 2);
    for pair in text.chunks_exact(2) {
        match (digit(pair[0]), digit(pair[1])) {
            (Some(high), Some(low)) => bytes.push(high << 4 | low),
            _ => {
                bytes.zeroize();
                return None;
            }
        }
    }
    Some(bytes)
}
