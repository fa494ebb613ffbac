//! Images that a model is shown: how one is given with a prompt, what the log says of one, and how one is recognised. The
//! bytes are in a file beside the log, never in it.

use serde::{Deserialize, Serialize};

/// Most bytes of one image.
pub const IMAGE_LIMIT: usize = 5 * 1024 * 1024;

/// Most images of one prompt.
pub const IMAGES_PER_PROMPT: usize = 8;

/// What the path of an image that is kept beside the log begins with, for the tool that shows it again.
pub const IMAGE_PATH: &str = "image:";

/// An image as a client gives it with a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ImageData {
    /// Such as `image/png`. What its bytes are counts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub media_type: String,
    /// The bytes in base64: a PNG, JPEG, GIF or WebP of at most 5 MiB.
    pub data: String,
}

/// An image in a file beside the log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ImageFile {
    /// Name of the file; it follows from the bytes.
    pub name: String,
    /// Such as `image/png`.
    pub media_type: String,
    /// Bytes of the file.
    pub bytes: u64,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
}

impl ImageFile {
    /// What it is, in a few words.
    pub fn describe(&self) -> String {
        let Self { media_type, width, height, .. } = self;
        format!("{media_type}, {width}×{height}, {}", size(self.bytes))
    }

    /// Tokens that it usually costs. Models differ, but most make large images smaller first.
    pub fn tokens(&self) -> u64 {
        const PIXELS: u64 = 750;
        (u64::from(self.width) * u64::from(self.height) / PIXELS).clamp(85, 1600)
    }

    /// Whether a name is one that images get: nothing in it can lead out of a directory.
    pub fn is_name(name: &str) -> bool {
        let Some((stem, ending)) = name.split_once('.') else { return false };
        let hex = stem.strip_prefix("img_").unwrap_or_default();
        ImageKind::ALL.iter().any(|kind| kind.ending() == ending)
            && hex.len() == 32
            && hex.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    }
}

/// A size as people read it.
fn size(bytes: u64) -> String {
    const KIB: u64 = 1024;
    match bytes {
        0..KIB => format!("{bytes} bytes"),
        _ if bytes < KIB * KIB => format!("{} KiB", bytes.div_ceil(KIB)),
        // With one digit after the point.
        _ => {
            let tenths = (bytes * 10).div_ceil(KIB * KIB);
            format!("{}.{} MiB", tenths / 10, tenths % 10)
        }
    }
}

/// The kinds of image that models take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageKind {
    /// PNG.
    Png,
    /// JPEG.
    Jpeg,
    /// GIF.
    Gif,
    /// WebP.
    Webp,
}

impl ImageKind {
    const ALL: [Self; 4] = [Self::Png, Self::Jpeg, Self::Gif, Self::Webp];

    /// The kind of bytes that begin like this.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(Self::Png),
            [0xff, 0xd8, 0xff, ..] => Some(Self::Jpeg),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(Self::Gif),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Self::Webp),
            _ => None,
        }
    }

    /// The kind with this ending of a file's name, as [`Self::ending`] gives it.
    pub fn named(name: &str) -> Option<Self> {
        let (_, ending) = name.rsplit_once('.')?;
        Self::ALL.into_iter().find(|kind| kind.ending() == ending)
    }

    /// Its name on the wire.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
        }
    }

    /// The ending of its files.
    pub fn ending(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Jpeg => "jpeg",
            Self::Gif => "gif",
            Self::Webp => "webp",
        }
    }

    /// Width and height in pixels, as the bytes say; none where they are broken off or say nothing that can be.
    pub fn dimensions(self, bytes: &[u8]) -> Option<(u32, u32)> {
        let (width, height) = match self {
            Self::Png => (big32(bytes, 16)?, big32(bytes, 20)?),
            Self::Gif => (little(bytes, 6, 2)?, little(bytes, 8, 2)?),
            Self::Webp => webp(bytes)?,
            Self::Jpeg => jpeg(bytes)?,
        };
        (width > 0 && height > 0).then_some((width, height))
    }
}

fn big32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|chunk| u32::from_be_bytes(*chunk))
}

fn big16(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|chunk| u16::from_be_bytes(*chunk).into())
}

/// A number of so many bytes, the lowest first.
fn little(bytes: &[u8], at: usize, length: usize) -> Option<u32> {
    let digits = bytes.get(at..at.checked_add(length)?)?;
    Some(digits.iter().rev().fold(0, |number, digit| (number << 8) | u32::from(*digit)))
}

/// A WebP's first chunk says it, each kind in its own way.
fn webp(bytes: &[u8]) -> Option<(u32, u32)> {
    const FOURTEEN: u32 = 0x3fff;
    match bytes.get(12..16)? {
        b"VP8 " if bytes.get(23..26)? == [0x9d, 0x01, 0x2a] => {
            Some((little(bytes, 26, 2)? & FOURTEEN, little(bytes, 28, 2)? & FOURTEEN))
        }
        b"VP8L" if *bytes.get(20)? == 0x2f => {
            let packed = little(bytes, 21, 4)?;
            Some(((packed & FOURTEEN) + 1, ((packed >> 14) & FOURTEEN) + 1))
        }
        b"VP8X" => Some((little(bytes, 24, 3)? + 1, little(bytes, 27, 3)? + 1)),
        _ => None,
    }
}

/// A JPEG says it in the first segment that begins a frame.
fn jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        if *bytes.get(at)? != 0xff {
            return None;
        }
        match *bytes.get(at + 1)? {
            // More of them may stand there to fill up.
            0xff => at += 1,
            // These have no length.
            0x01 | 0xd0..=0xd8 => at += 2,
            // Tables and other things that share the frames' numbers.
            0xc4 | 0xc8 | 0xcc => at += 2 + big16(bytes, at + 2)?.max(2) as usize,
            0xc0..=0xcf => return Some((big16(bytes, at + 7)?, big16(bytes, at + 5)?)),
            // The picture, or its end, and no frame before it.
            0xd9 | 0xda => return None,
            _ => at += 2 + big16(bytes, at + 2)?.max(2) as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(bytes: &[u8]) -> Option<(&'static str, u32, u32)> {
        let kind = ImageKind::of(bytes)?;
        kind.dimensions(bytes).map(|(width, height)| (kind.media_type(), width, height))
    }

    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend(height.to_be_bytes());
        bytes
    }

    fn riff(chunk: &[u8]) -> Vec<u8> {
        [b"RIFF\0\0\0\0WEBP", chunk].concat()
    }

    #[test]
    fn each_kind_is_told_by_its_bytes_with_its_size() {
        assert_eq!(found(&png(640, 480)), Some(("image/png", 640, 480)));
        assert_eq!(found(b"GIF89a\x40\x01\xf0\x00\0\0"), Some(("image/gif", 320, 240)));
        // A picture for the preview stands before the frame, and a table whose number is among the frames'.
        let preview = b"\xff\xe0\x00\x06\xff\xd8\xff\xc0\xff\xff\xc4\x00\x04\0\0";
        let frame = b"\xff\xc2\x00\x11\x08\x01\xe0\x02\x80\x03";
        let jpeg = [&b"\xff\xd8"[..], preview, frame].concat();
        assert_eq!(found(&jpeg), Some(("image/jpeg", 640, 480)));
        let lossy = riff(b"VP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x80\x02\xe0\x01");
        assert_eq!(found(&lossy), Some(("image/webp", 640, 480)));
        let lossless = riff(b"VP8L\0\0\0\0\x2f\x7f\xc2\x77\x00");
        assert_eq!(found(&lossless), Some(("image/webp", 640, 480)));
        let extended = riff(b"VP8X\x0a\0\0\0\0\0\0\0\x7f\x02\0\xdf\x01\0");
        assert_eq!(found(&extended), Some(("image/webp", 640, 480)));
    }

    #[test]
    fn what_is_broken_off_or_something_else_is_no_image() {
        let whole = [png(640, 480), riff(b"VP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x80\x02\xe0\x01")];
        for image in whole {
            for length in 0..image.len() {
                assert_eq!(found(&image[..length]), None, "{length} of {image:?}");
            }
        }
        assert_eq!(found(&png(0, 480)), None);
        for other in [&b"fn main() {}"[..], b"%PDF-1.7", b"RIFF\0\0\0\0WAVEfmt ", b"\xff\xd8\xff\xd9", b""] {
            assert_eq!(found(other), None, "{other:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_are_too_strange(mut bytes in proptest::collection::vec(0u8.., 0..80), kind in 0usize..4) {
            let begins: [&[u8]; 4] = [b"\xff\xd8\xff", b"RIFF\0\0\0\0WEBPVP8", b"GIF89a", b"\x89PNG\r\n\x1a\n"];
            bytes.splice(0..0, begins[kind].iter().copied());
            proptest::prop_assert!(found(&bytes).is_none_or(|(_, width, height)| width > 0 && height > 0));
        }
    }

    #[test]
    fn names_lead_nowhere_else() {
        let name = format!("img_{}.png", "0af9".repeat(8));
        assert!(ImageFile::is_name(&name) && ImageKind::named(&name) == Some(ImageKind::Png));
        for other in [
            "img_.png".to_owned(),
            name.replace("png", "svg"),
            name.replace('0', "/"),
            format!("../{name}"),
            format!("{name}/.."),
            name.replace("png", "png.out"),
            name.to_uppercase(),
        ] {
            assert!(!ImageFile::is_name(&other), "{other}");
        }
    }

    #[test]
    fn an_image_is_described_and_has_the_usual_price() {
        let image = |bytes, width, height| {
            let media_type = "image/png".to_owned();
            ImageFile { name: String::new(), media_type, bytes, width, height }
        };
        assert_eq!(image(12_000, 640, 480).describe(), "image/png, 640×480, 12 KiB");
        assert_eq!(image(900, 1, 1).describe(), "image/png, 1×1, 900 bytes");
        assert_eq!(image(5 << 20, 9000, 9000).describe(), "image/png, 9000×9000, 5.0 MiB");
        assert_eq!(image(0, 750, 400).tokens(), 400);
        assert_eq!((image(0, 9000, 9000).tokens(), image(0, 8, 8).tokens()), (1600, 85));
    }
}
