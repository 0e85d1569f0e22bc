//! The decoder of compressed chunks on any bytes: an accepted chunk has its claimed length, and goes round
//! through the encoder and through the form of memory.

use martlet_tseries::chunk::Chunk;
use martlet_tseries::gorilla::{self, Meter};
use martlet_tseries::sample::Sample;

/// Bytes before the stream: count and bits of 2 bytes each, first timestamp and value of 8.
const HEAD_BYTES: usize = 20;

/// The input is a head and a stream of bits.
pub fn check(data: &[u8]) {
    let Some((head, stream)) = data.split_at_checked(HEAD_BYTES) else { return };
    let number =
        |from: usize, to: usize| head[from..to].iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
    let (count, bits) = (number(0, 2), number(2, 4));
    let first = Sample::new(number(4, 12), f64::from_bits(number(12, 20)));
    let Some(samples) = gorilla::decode(first, count, stream, bits) else { return };
    assert_eq!(samples.len() as u64, count);
    let mut meter = Meter::default();
    assert!(samples.iter().all(|sample| meter.push(*sample, u64::MAX)));
    let size = (meter.bits.div_ceil(64) * 8) as usize;
    let (bytes, encoded) = gorilla::encode(samples.iter().copied(), size);
    assert_eq!((encoded, bytes.len()), (meter, size));
    let again = gorilla::decode(first, count, &bytes, meter.bits);
    assert_eq!(again.as_deref(), Some(&samples[..]));
    if samples.windows(2).all(|pair| pair[0].timestamp < pair[1].timestamp) {
        let mut chunk = Chunk::from_samples(&samples, 4096);
        chunk.seal();
        assert_eq!(chunk.to_samples(), samples);
    }
}

/// Chunks of several kinds.
pub fn seeds() -> Vec<Vec<u8>> {
    let value = |kind: u64, index: u64| match kind {
        0 => 7.0,
        1 => index as f64,
        2 => (index % 10) as f64 / 10.0,
        _ => 1.0 / (index + 1) as f64,
    };
    let seed = |kind: u64, jitter: u64, count: u64| {
        let samples: Vec<Sample> = (0..count)
            .map(|index| {
                Sample::new(1_700_000_000_000 + index * 1000 + index * 7 % jitter, value(kind, index))
            })
            .collect();
        let (bytes, meter) = gorilla::encode(samples.iter().copied(), 512);
        let mut data = (count as u16).to_le_bytes().to_vec();
        data.extend((meter.bits as u16).to_le_bytes());
        data.extend(samples[0].timestamp.to_le_bytes());
        data.extend(samples[0].value.to_le_bytes());
        data.extend(bytes);
        data
    };
    let kinds = (0..4).flat_map(|kind| [(kind, 1, 1), (kind, 1, 40), (kind, 5, 40), (kind, 100_000, 20)]);
    kinds.map(|(kind, jitter, count)| seed(kind, jitter, count)).collect()
}
