//! The subject's common name in an X.509 certificate: as much of DER as leads to it.

/// DER tags.
const INTEGER: u8 = 0x02;
const OBJECT_ID: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
/// The version, which may be left out.
const VERSION: u8 = 0xa0;
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

/// The first common name of the certificate's subject.
pub fn common_name(mut certificate: &[u8]) -> Option<Vec<u8>> {
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
