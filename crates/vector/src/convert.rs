//! Conversions between the number types in which search's documents carry vectors and the f32 that the
//! graph stores: f64, IEEE half precision (f16) and bfloat16, all little-endian on the wire. Rounding is to
//! nearest, ties to even.

/// The components of a vector in a document, by their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    /// IEEE single precision, 4 bytes.
    F32,
    /// IEEE double precision, 8 bytes.
    F64,
    /// IEEE half precision, 2 bytes.
    F16,
    /// The upper half of an f32, 2 bytes.
    Bf16,
}

impl Component {
    /// Bytes of one component.
    pub const fn size(self) -> usize {
        match self {
            Component::F32 => 4,
            Component::F64 => 8,
            Component::F16 | Component::Bf16 => 2,
        }
    }

    /// Decodes a blob into `out`; `None` when the blob's length is no multiple of a component's, or when a
    /// component is not finite as f32.
    pub fn decode(self, blob: &[u8], out: &mut Vec<f32>) -> Option<()> {
        if !blob.len().is_multiple_of(self.size()) {
            return None;
        }
        out.clear();
        match self {
            Component::F32 => out.extend(blob.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes))),
            Component::F64 => {
                out.extend(blob.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes) as f32));
            }
            Component::F16 => {
                out.extend(blob.as_chunks().0.iter().map(|bytes| f16_to_f32(u16::from_le_bytes(*bytes))));
            }
            Component::Bf16 => {
                out.extend(blob.as_chunks().0.iter().map(|bytes| bf16_to_f32(u16::from_le_bytes(*bytes))));
            }
        }
        out.iter().all(|value| value.is_finite()).then_some(())
    }

    /// Appends the components' bytes to `out`.
    pub fn encode(self, values: &[f32], out: &mut Vec<u8>) {
        for value in values {
            match self {
                Component::F32 => out.extend_from_slice(&value.to_le_bytes()),
                Component::F64 => out.extend_from_slice(&f64::from(*value).to_le_bytes()),
                Component::F16 => out.extend_from_slice(&f32_to_f16(*value).to_le_bytes()),
                Component::Bf16 => out.extend_from_slice(&f32_to_bf16(*value).to_le_bytes()),
            }
        }
    }
}

/// A half-precision number as f32; exact.
pub fn f16_to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let exponent = u32::from(bits >> 10) & 0x1f;
    let fraction = u32::from(bits) & 0x3ff;
    let magnitude = match (exponent, fraction) {
        (0, _) => (fraction as f32 * (1.0 / 16_777_216.0)).to_bits(),
        (0x1f, _) => 0x7f80_0000 | (fraction << 13),
        _ => ((exponent + 112) << 23) | (fraction << 13),
    };
    f32::from_bits(sign | magnitude)
}

/// The nearest half-precision number; numbers from 65,520 on become infinite.
pub fn f32_to_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    if magnitude > 0x7f80_0000 {
        return sign | 0x7e00;
    }
    if magnitude >= 0x4780_0000 {
        return sign | 0x7c00;
    }
    if magnitude < 0x3880_0000 {
        // Subnormal: in units of 2^-24, which f32 holds exactly before it is rounded.
        let units = f32::from_bits(magnitude) * 16_777_216.0;
        return sign | units.round_ties_even() as u16;
    }
    let rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
    sign | ((rounded - (112 << 23)) >> 13) as u16
}

/// A bfloat16 number as f32; exact.
pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The nearest bfloat16 number.
pub fn f32_to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return ((bits >> 16) | 0x40) as u16;
    }
    (bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_survives_the_round_trip() {
        for bits in 0..=u16::MAX {
            let value = f16_to_f32(bits);
            if value.is_nan() {
                assert!(f16_to_f32(f32_to_f16(value)).is_nan());
            } else {
                assert_eq!(f32_to_f16(value), bits, "{value}");
            }
            let value = bf16_to_f32(bits);
            if value.is_nan() {
                assert!(bf16_to_f32(f32_to_bf16(value)).is_nan());
            } else {
                assert_eq!(f32_to_bf16(value), bits, "{value}");
            }
        }
    }

    #[test]
    fn halves_round_to_nearest_ties_to_even() {
        assert_eq!(f32_to_f16(1.0), 0x3c00);
        assert_eq!(f32_to_f16(1.0 + 1.0 / 2048.0), 0x3c00, "a tie goes to the even neighbour");
        assert_eq!(f32_to_f16(1.0 + 3.0 / 2048.0), 0x3c02);
        assert_eq!(f32_to_f16(65519.0), 0x7bff);
        assert_eq!(f32_to_f16(65520.0), 0x7c00);
        assert_eq!(f32_to_f16(-5.9604645e-8), 0x8001);
        assert_eq!(f32_to_f16(2.9802322e-8), 0, "half of the smallest number is a tie");
        assert_eq!(f32_to_f16(6.1035156e-5), 0x0400);
        assert_eq!(f32_to_bf16(1.0 + 1.0 / 256.0), 0x3f80);
        assert_eq!(f32_to_bf16(1.0 + 3.0 / 256.0), 0x3f82);
        assert_eq!(f32_to_bf16(f32::MAX), 0x7f80);
    }

    #[test]
    fn blobs_of_every_type_are_read() {
        let values = [0.5f32, -2.0, 1024.0];
        let mut out = Vec::new();
        for component in [Component::F32, Component::F64, Component::F16, Component::Bf16] {
            let mut blob = Vec::new();
            component.encode(&values, &mut blob);
            assert_eq!(blob.len(), 3 * component.size());
            assert!(component.decode(&blob, &mut out).is_some());
            assert_eq!(out, values);
            assert!(component.decode(&blob[1..], &mut out).is_none());
        }
        assert!(Component::F64.decode(&1e300f64.to_le_bytes(), &mut out).is_none());
        assert!(Component::F32.decode(&f32::NAN.to_le_bytes(), &mut out).is_none());
    }
}
