//! The bundled log, packed and in other encodings.

use std::io::Write as _;

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

/// The log in each packing that is read.
pub(crate) fn packed(plain: &str) -> Vec<(&'static str, Vec<u8>)> {
    let bytes = plain.as_bytes();
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let bzip2 = |bytes: &[u8]| {
        let mut packed = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        packed.write_all(bytes).unwrap();
        packed.finish().unwrap()
    };
    let xz = |bytes: &[u8]| {
        let options = lzma_rust2::XzOptions::with_preset(0);
        let mut packed = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
        packed.write_all(bytes).unwrap();
        packed.finish().unwrap()
    };
    let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap();
    let utf_16 =
        |bytes: fn(u16) -> [u8; 2]| plain.encode_utf16().flat_map(bytes).collect::<Vec<_>>();
    vec![
        ("gzip", gzip(bytes)),
        ("gzip of two members", [gzip(first), gzip(second)].concat()),
        ("bzip2 of two members", [bzip2(first), bzip2(second)].concat()),
        ("xz of two streams", [xz(first), xz(second)].concat()),
        ("zstd of two frames", [zstd(first), zstd(second)].concat()),
        ("UTF-16 with a mark", [vec![0xff, 0xfe], utf_16(u16::to_le_bytes)].concat()),
        ("UTF-16 with the other mark", [vec![0xfe, 0xff], utf_16(u16::to_be_bytes)].concat()),
        ("UTF-16 without a mark", utf_16(u16::to_le_bytes)),
        ("UTF-16, the other way round", utf_16(u16::to_be_bytes)),
        ("UTF-8 with a mark", [b"\xef\xbb\xbf", bytes].concat()),
        ("line ends of Windows", plain.replace('\n', "\r\n").into_bytes()),
        ("UTF-16 in gzip", gzip(&[vec![0xff, 0xfe], utf_16(u16::to_le_bytes)].concat())),
    ]
}

/// The beginning of an archive with a file of this name (POSIX.1, ustar).
pub(crate) fn tar(name: &[u8]) -> Vec<u8> {
    let mut header = vec![0; 512];
    header[..name.len()].copy_from_slice(name);
    header[124..135].copy_from_slice(b"00000000001");
    header[148..156].copy_from_slice(b"        ");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header.resize(2_048, 0);
    header
}
