//! What an X.509 certificate calls its subject, a common name or a URI: as much of DER as leads to it.

/// DER tags.
const BOOLEAN: u8 = 0x01;
const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const OBJECT_ID: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
/// The version, which may be left out.
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
/// A URI among alternative names.
const URI: u8 = 0x86;
/// 2.5.29.17.
const ALTERNATIVE_NAMES: [u8; 3] = [0x55, 0x1d, 0x11];
/// 2.5.4.3.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
/// UTF8String, PrintableString, TeletexString, IA5String: bytes as they are.
const TEXTS: [u8; 4] = [0x0c, 0x13, 0x14, 0x16];

/// Takes the first value off `der`: its tag and content.
fn take<'a>(der: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let mut length = usize::from(first);
    if first >= 0x80 {
        let (digits, tail) =
            rest.split_at_checked(usize::from(first & 0x7f)).filter(|(d, _)| d.len() <= 4)?;
        length = digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit));
        rest = tail;
    }
    let (content, tail) = rest.split_at_checked(length)?;
    *der = tail;
    Some((tag, content))
}

fn take_tagged<'a>(der: &mut &'a [u8], wanted: u8) -> Option<&'a [u8]> {
    take(der).and_then(|(tag, content)| (tag == wanted).then_some(content))
}

/// The fields of a certificate from its subject on.
fn from_subject(mut certificate: &[u8]) -> Option<&[u8]> {
    let mut outer = take_tagged(&mut certificate, SEQUENCE)?;
    let mut fields = take_tagged(&mut outer, SEQUENCE)?;
    if fields.first() == Some(&VERSION) {
        take(&mut fields)?;
    }
    take_tagged(&mut fields, INTEGER)?;
    // The signature's algorithm, the issuer, how long it is valid.
    for _ in 0..3 {
        take_tagged(&mut fields, SEQUENCE)?;
    }
    Some(fields)
}

/// The first common name of the certificate's subject.
pub fn common_name(certificate: &[u8]) -> Option<Vec<u8>> {
    let mut fields = from_subject(certificate)?;
    let mut subject = take_tagged(&mut fields, SEQUENCE)?;
    while !subject.is_empty() {
        let mut set = take_tagged(&mut subject, SET)?;
        while !set.is_empty() {
            let mut attribute = take_tagged(&mut set, SEQUENCE)?;
            let kind = take_tagged(&mut attribute, OBJECT_ID)?;
            let (tag, value) = take(&mut attribute)?;
            if kind == COMMON_NAME && TEXTS.contains(&tag) {
                return Some(value.to_vec());
            }
        }
    }
    None
}

/// The first URI among the alternative names of the certificate's subject.
pub fn alternative_uri(certificate: &[u8]) -> Option<Vec<u8>> {
    let mut fields = from_subject(certificate)?;
    let mut wrapped = loop {
        let (tag, content) = take(&mut fields)?;
        if tag == EXTENSIONS {
            break content;
        }
    };
    let mut extensions = take_tagged(&mut wrapped, SEQUENCE)?;
    while !extensions.is_empty() {
        let mut extension = take_tagged(&mut extensions, SEQUENCE)?;
        if take_tagged(&mut extension, OBJECT_ID)? != ALTERNATIVE_NAMES {
            continue;
        }
        let (mut tag, mut value) = take(&mut extension)?;
        if tag == BOOLEAN {
            (tag, value) = take(&mut extension)?;
        }
        let mut names = (tag == OCTETS).then(|| take_tagged(&mut value, SEQUENCE))??;
        while !names.is_empty() {
            let (tag, name) = take(&mut names)?;
            if tag == URI {
                return Some(name.to_vec());
            }
        }
    }
    None
}
