//! The descriptor of bags.

use martlet_rdb::module::{ItemReader, ItemWriter};
use martlet_values::{Digest, Error, Export, ModuleDescriptor, ModuleType};

use super::structure::Bag;

pub static DESCRIPTOR: ModuleDescriptor = ModuleDescriptor::of::<Bag>();

impl ModuleType for Bag {
    const NAME: &'static [u8; 9] = b"bag-words";
    const ENCODING_VERSIONS: std::ops::RangeInclusive<u16> = 1..=1;

    fn save(&self, items: &mut ItemWriter<'_, '_>) {
        items.unsigned(self.words().len() as u64);
        for word in self.words() {
            items.string(&word.text);
            items.unsigned(word.count);
            items.signed(word.until_ms.unwrap_or(-1));
        }
    }

    fn load(items: &mut ItemReader<'_>, _version: u16) -> Result<Bag, Error> {
        let mut bag = Bag::default();
        let count = items.unsigned()?;
        if count > items.remaining() {
            return Err(Error::Truncated);
        }
        for _ in 0..count {
            let text = items.string()?.to_vec();
            let (count, until_ms) = (items.unsigned()?, items.signed()?);
            bag.add(&text, count, Some(until_ms).filter(|until_ms| *until_ms >= 0));
        }
        Ok(bag)
    }

    fn digest(&self, digest: &mut Digest) {
        for word in self.words() {
            digest.mix(&word.text);
            digest.mix(word.count.to_string().as_bytes());
        }
    }

    fn export(&self, out: &mut Export<'_>) {
        out.array(|out| {
            for word in self.words() {
                out.array(|out| {
                    out.text(&word.text);
                    out.int(word.count);
                });
            }
        });
    }
}
