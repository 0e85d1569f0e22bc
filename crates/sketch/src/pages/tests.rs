//! `Pages` against a plain vector; clones that must not change; memory; freeing in slices.

use super::*;
use martlet_base::random::Random;

type Array = Pages<u32, 4>;

fn slots(array: &Array) -> Vec<u32> {
    let mut slots = Vec::new();
    for run in array.runs(0..array.len()) {
        match run {
            Run::Zeros(count) => slots.resize(slots.len() + count, 0),
            Run::Slots(run) => slots.extend(run),
        }
    }
    slots
}

#[test]
fn an_array_is_a_vector_and_its_clones_are_frozen() {
    let seed = 11;
    println!("seed {seed}");
    let mut random = Random::seeded(seed);
    for len in [1, 3, 4, 5, 100, 4 * FANOUT as u64 - 1, 4 * FANOUT as u64 * 2 + 3] {
        let mut array = Array::zeroed(len);
        let mut model = vec![0_u32; len as usize];
        let mut frozen: Vec<(Array, Vec<u32>)> = Vec::new();
        for step in 0..300 {
            let index = random.below(len);
            match random.below(8) {
                0 => frozen.push((array.clone(), model.clone())),
                1 if frozen.len() > 2 => drop(frozen.swap_remove(random.below(3) as usize)),
                2 => {
                    let count = random.below((len - index).min(9) + 1);
                    let values: Vec<u32> = (0..count).map(|_| random.below(2) as u32 * step).collect();
                    array.write(index, &values);
                    model[index as usize..][..values.len()].copy_from_slice(&values);
                }
                3 => {
                    let (copy, values) = (array.clone(), model.clone());
                    *array.get_mut(index) = step;
                    frozen.push((std::mem::replace(&mut array, copy), {
                        let mut changed = values.clone();
                        changed[index as usize] = step;
                        changed
                    }));
                }
                _ => {
                    *array.get_mut(index) += step;
                    model[index as usize] += step;
                }
            }
            assert_eq!(array.get(index).copied().unwrap_or(0), model[index as usize]);
        }
        frozen.push((array, model));
        for (array, model) in frozen {
            assert_eq!(slots(&array), model, "of {len} slots");
        }
    }
}

#[test]
fn pages_come_with_the_first_write() {
    let mut array = Pages::<u8, PAGE_BYTES>::zeroed(1 << 40);
    let root = array.heap_bytes();
    assert!(root < 8 << 20, "{root}");
    array.write(1 << 39, &[0; 1000]);
    assert_eq!(array.heap_bytes(), root);
    array.write((1 << 39) - 1, &[0, 0, 7]);
    assert_eq!(array.heap_bytes(), root + 8192 + 8 + 8 * FANOUT);
    assert_eq!(array.get((1 << 39) + 1), Some(&7));
    assert_eq!(Pages::<u8, PAGE_BYTES>::zeroed(PAGE_BYTES as u64).heap_bytes(), 0);
}

#[test]
fn debris_is_freed_in_slices() {
    let mut array = Array::zeroed(4 * 600);
    (0..600).for_each(|page| *array.get_mut(page * 4) = 1);
    let shared = array.clone();
    let mut debris = Debris::default();
    array.into_debris(&mut debris);
    assert!(debris.is_empty(), "a clone still has all pages");
    shared.into_debris(&mut debris);
    let slices = (1..).find(|_| debris.free_slice(10)).unwrap();
    // 600 pages and three branches, and once more to see that nothing is left.
    assert!((60..=62).contains(&slices), "{slices}");
}
