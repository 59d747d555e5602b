//! That every payload comes back as it was, that what is equal is kept once, and that damage is an error.

use std::collections::HashMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// Unpacks with these blobs only, through their compressed form.
fn restore(data: &str, blobs: &[Blob]) -> Result<String, Unpack<String>> {
    let blobs: HashMap<Hash, &Blob> = blobs.iter().map(|blob| (blob.hash, blob)).collect();
    unpack(data.to_owned(), |hash| {
        let blob = blobs.get(hash).ok_or("missing")?;
        Blob::unpack(blob.size, &blob.packed).map_err(|e| e.to_string())
    })
}

/// Packs the text, checks what always holds, and returns what came out.
fn check(text: &str) -> Packed {
    let packed = pack(text.to_owned()).unwrap();
    assert_eq!(restore(&packed.data, &packed.blobs).unwrap(), text);
    assert!(packed.data.len() <= LIMIT);
    assert_eq!(packed.blobs.is_empty(), packed.data == text);
    let mut hashes: Vec<Hash> = packed.blobs.iter().map(|blob| blob.hash).collect();
    assert!(references(&packed.data).iter().all(|hash| hashes.contains(hash)));
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), packed.blobs.len(), "each blob once");
    packed
}

/// Text that does not compress, as an image in base64.
fn noise(length: usize) -> String {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().update(b"noise").finalize_xof().fill(&mut bytes);
    bytes.iter().map(|byte| char::from(b'0' + byte % 75)).filter(|c| *c != '\\').collect()
}

fn marker(hash: Hash) -> String {
    format!("{NUL}{hash}")
}

#[test]
fn short_payloads_are_kept_as_they_are() {
    for text in ["{}", "", "null", r#"{"a":"\u0000x"}"#] {
        assert_eq!(check(text), Packed { data: text.to_owned(), blobs: Vec::new() });
    }
    let at_the_limit = format!("[\"{}\"]", "x".repeat(LIMIT - 4));
    assert_eq!(check(&at_the_limit).data, at_the_limit);
}

#[test]
fn a_long_string_becomes_a_blob_of_its_own() {
    let image = noise(200_000);
    let packed = check(&json!({ "type": "file", "url": image, "name": "a.png" }).to_string());
    let hash = Hash::of(image.as_bytes());
    assert_eq!(packed.data, format!(r#"*{{"type":"file","url":"{}","name":"a.png"}}"#, marker(hash)));
    assert_eq!(references(&packed.data), [hash]);
    assert_eq!(packed.blobs.len(), 1);
    assert_eq!(packed.blobs[0].hash, hash);
}

#[test]
fn the_limit_of_a_string_is_exact() {
    // As long as the limit it stays, and the whole goes; one more and it goes itself.
    let fits = check(&format!("[\"{}\"]", "x".repeat(LIMIT)));
    assert!(fits.data.starts_with('@'));
    let over = check(&format!("[\"{}\"]", "x".repeat(LIMIT + 1)));
    assert!(over.data.starts_with('*'));
}

#[test]
fn one_attachment_is_one_blob_wherever_it_is() {
    let image = noise(100_000) + "\"\\\n\u{1f600}";
    let event = check(&json!({ "seq": 7, "part": { "url": image } }).to_string());
    let row = check(&json!({ "rows": [{ "url": image }, { "again": image }] }).to_string());
    assert_eq!(event.blobs, row.blobs);
    assert_eq!(event.blobs.len(), 1);
}

#[test]
fn what_is_long_without_a_long_string_is_kept_whole() {
    let numbers = format!("{:?}", (0..40_000).collect::<Vec<_>>());
    let packed = check(&numbers);
    let hash = Hash::of(numbers.as_bytes());
    assert_eq!(packed.data, format!("@{hash}"));
    assert_eq!(references(&packed.data), [hash]);
    assert!(packed.blobs[0].packed.len() < numbers.len() / 2);
}

#[test]
fn a_long_rest_is_kept_whole_with_its_markers() {
    let image = noise(100_000);
    let text = json!({ "list": (0..40_000).collect::<Vec<_>>(), "url": image }).to_string();
    let packed = check(&text);
    assert_eq!(packed.blobs.len(), 2);
    let whole = &packed.blobs[1];
    let inner = String::from_utf8(Blob::unpack(whole.size, &whole.packed).unwrap()).unwrap();
    assert_eq!(references(&packed.data), [whole.hash]);
    assert!(inner.starts_with('*'));
    assert_eq!(references(&inner), [packed.blobs[0].hash]);
}

#[test]
fn content_that_looks_like_a_marker_is_content() {
    let image = noise(100_000);
    let forged = format!("\0{}", Hash::of(image.as_bytes()));
    let whole = check(&json!({ "forged": forged, "url": image }).to_string());
    assert!(whole.data.starts_with('@'));
    assert_eq!(whole.blobs.len(), 1);
    check(&json!({ "url": image, forged.clone(): 1 }).to_string());
    // NUL behind the beginning, behind an escaped backslash or in a string within a string is not a marker.
    for harmless in [format!("x{forged}"), forged.replace('\0', NUL), format!("{forged:?}")] {
        assert!(check(&json!([harmless, image]).to_string()).data.starts_with('*'));
    }
    check(&json!([forged]).to_string());
    check(&json!([format!("*{forged}"), "@", "*"]).to_string());
    check(&json!([format!("\0{image}")]).to_string());
}

#[test]
fn what_is_no_json_is_refused_or_comes_back() {
    let long = "x".repeat(LIMIT);
    for text in ["*", "@", &format!("@{}", Hash::of(b"")), &format!("*{long}"), &format!("@{long}")] {
        assert_eq!(pack((*text).to_owned()).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
    for text in [format!("\"{long}x"), format!("\"{long}\\"), format!("\"\"\"{long}x\"\"\"\\\""), long + "\""]
    {
        check(&text);
    }
}

#[test]
fn what_does_not_compress_is_kept_plain() {
    let mut bytes = vec![0; 100_000];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    assert_eq!(Blob::of(&bytes).unwrap().packed, bytes);
    assert_eq!(Blob::of(b"").unwrap().packed, b"");
    let text = noise(100_000);
    assert!(Blob::of(text.as_bytes()).unwrap().packed.len() < 90_000);
}

#[test]
fn a_hash_has_one_text() {
    let hash = Hash::of(b"x");
    assert_eq!(hash.to_hex().parse(), Ok(hash));
    assert_eq!(Hash::from_slice(hash.as_bytes()), Some(hash));
    assert_eq!(Hash::from_slice(&hash.as_bytes()[1..]), None);
    for bad in ["", "0", &hash.to_hex().to_uppercase(), &format!("{hash}0"), &"ä".repeat(32)] {
        assert_eq!(bad.parse::<Hash>(), Err(BadHash));
    }
}

#[test]
fn damaged_data_is_an_error() {
    let none = |data: &str| restore(data, &[]).unwrap_err();
    let hash = Hash::of(b"x");
    assert_eq!(none(&format!("@{hash}")), Unpack::Fetch("missing".to_owned()));
    assert_eq!(none(&format!("*[\"{}\"]", marker(hash))), Unpack::Fetch("missing".to_owned()));
    let forms =
        ["@", "@0", &format!("@{hash} "), &format!("*[\"{NUL}"), &format!("*[\"{}0\"]", marker(hash))];
    for data in forms {
        assert!(matches!(none(data), Unpack::Malformed(_)), "{data}");
        assert_eq!(references(data), []);
    }
    let nested = Blob::of(format!("@{hash}").as_bytes()).unwrap();
    assert!(matches!(restore(&format!("@{}", nested.hash), &[nested]), Err(Unpack::Malformed(_))));
    let binary = Blob::of(&[0xff; 10]).unwrap();
    assert_eq!(
        restore(&format!("@{}", binary.hash), std::slice::from_ref(&binary)),
        Err(Unpack::NotText(binary.hash))
    );
    let changed = Blob { hash, ..Blob::of(b"y").unwrap() };
    assert_eq!(restore(&format!("*\"{}\"", marker(hash)), &[changed]), Err(Unpack::Changed(hash)));
}

#[test]
fn a_payload_does_not_grow_without_end() {
    let blob = Blob::of("x".repeat(1000).as_bytes()).unwrap();
    let data = format!("*[{0},{0},{0}]", format!("\"{}\"", marker(blob.hash)));
    let fetch = |_: &Hash| Blob::unpack(blob.size, &blob.packed);
    assert_eq!(fill(data.clone(), 3010, fetch).unwrap().len(), 3010);
    assert!(matches!(fill(data, 2900, fetch), Err(Unpack::Malformed(_))));
}

#[test]
fn damaged_blobs_are_an_error() {
    let bytes = noise(300_000).into_bytes();
    let blob = Blob::of(&bytes).unwrap();
    assert_eq!(Blob::unpack(blob.size, &blob.packed).unwrap(), bytes);
    for size in [0, 1, LIMIT, bytes.len() - 1, bytes.len() + 1, LONGEST, LONGEST + 1, usize::MAX] {
        assert!(Blob::unpack(size, &blob.packed).is_err(), "{size}");
    }
    for cut in [0, 1, 4, 17, blob.packed.len() / 2, blob.packed.len() - 1] {
        assert!(Blob::unpack(blob.size, &blob.packed[..cut]).is_err(), "{cut}");
    }
    let trailing = [blob.packed.as_slice(), b"x"].concat();
    assert!(Blob::unpack(blob.size, &trailing).is_err());
    assert!(Blob::unpack(20, b"not zstd").is_err());
    // A frame that asks for a window of 2 GiB, with one empty block.
    assert!(Blob::unpack(20, &[0x28, 0xb5, 0x2f, 0xfd, 0, 0xa8, 1, 0, 0]).is_err());
}

#[test]
fn a_bomb_stops_at_the_size_it_names() {
    let bomb = zstd::bulk::compress(&vec![0; 50_000_000], 1).unwrap();
    assert!(Blob::unpack(100_000, &bomb).is_err());
    let bytes = Blob::unpack(50_000_000, &bomb).unwrap();
    assert_eq!(bytes.capacity(), 50_000_000);
}

/// Strings of all kinds, and some with lengths around the limit.
fn string() -> impl Strategy<Value = String> {
    let unit = prop_oneof![
        "[a-z]{1,5}",
        Just("\"".to_owned()),
        Just("\\".to_owned()),
        Just("\0".to_owned()),
        Just("ü漢\u{1f600}\n".to_owned()),
        "\\PC{1,4}",
    ];
    let length = prop_oneof![LIMIT - 8..LIMIT + 8, LIMIT / 2 - 4..LIMIT / 2 + 4, 1..3 * LIMIT];
    let long = (unit, length).prop_map(|(unit, length)| {
        let mut text = unit.repeat(length / unit.len() + 1);
        text.truncate(text.floor_char_boundary(length));
        text
    });
    let marker = any::<[u8; 32]>().prop_map(|hash| format!("\0{}", Hash(hash)));
    prop_oneof![6 => "\\PC{0,8}", 3 => long, 1 => marker, 1 => any::<String>()]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        4 => string().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<f64>().prop_map(Value::from),
        1 => Just(Value::Null),
    ];
    leaf.prop_recursive(4, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((string(), inner), 0..3).prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}

/// Fewer cases than usual, because each one is long; `PROPTEST_CASES` says otherwise.
fn configuration() -> ProptestConfig {
    let usual = ProptestConfig::default();
    let cases = if usual.cases == 256 { 64 } else { usual.cases };
    ProptestConfig { cases, failure_persistence: None, ..usual }
}

proptest! {
    #![proptest_config(configuration())]

    #[test]
    fn any_json_comes_back(value in value()) {
        check(&value.to_string());
        check(&serde_json::to_string_pretty(&value).unwrap());
    }

    #[test]
    fn any_text_comes_back_or_is_refused(parts in prop::collection::vec(string(), 0..6)) {
        let text = parts.join("\"");
        match text.starts_with(['*', '@']) {
            true => prop_assert!(pack(text).is_err()),
            false => { check(&text); }
        }
    }

    #[test]
    fn any_data_is_read_or_refused(form in "[*@]?", parts in prop::collection::vec(string(), 0..4)) {
        let data = form + &parts.join("\"");
        references(&data);
        let _ = restore(&data, &[]);
    }

    #[test]
    fn any_flipped_bit_in_a_blob_is_noticed(at in any::<prop::sample::Index>(), bit in 0..8) {
        let image = noise(70_000);
        let Packed { data, mut blobs } = pack(json!([image]).to_string()).unwrap();
        let at = at.index(blobs[0].packed.len());
        blobs[0].packed[at] ^= 1u8 << bit;
        // zstd may not care about a bit that changes nothing; but what comes back is then what was packed.
        if let Ok(text) = restore(&data, &blobs) {
            prop_assert_eq!(text, json!([image]).to_string());
        }
    }

    #[test]
    fn any_bytes_are_unpacked_or_refused(
        size in 0..1_000_000usize,
        mut packed in prop::collection::vec(any::<u8>(), 0..200),
        magic in any::<bool>(),
    ) {
        if magic {
            packed.splice(0..0, [0x28, 0xb5, 0x2f, 0xfd]);
        }
        if let Ok(bytes) = Blob::unpack(size, &packed) {
            prop_assert_eq!(bytes.len(), size);
            prop_assert!(bytes.capacity() <= size);
        }
    }
}
