//! The section Keysizes: how many keys of each type have how many bytes or elements.

use martlet_values::TYPES;

use super::Text;
use crate::runtime::Worker;

/// Writes a field for each database and type of which there are keys, such as
/// `db0_distrib_strings_sizes:16=3,1K=1`: each number is that of the keys from this size up to the next power
/// of two.
pub(super) fn keysizes(worker: &mut Worker, text: &mut Text) {
    let survey = text.survey(worker);
    text.title("Keysizes");
    for (index, held) in &survey.databases {
        for (counts, data_type) in held.sizes.iter().flat_map(|sizes| sizes.iter()).zip(TYPES) {
            let Some(name) = data_type.keysizes else { continue };
            let bins: Vec<String> = counts
                .iter()
                .enumerate()
                .filter(|(_, count)| **count > 0)
                .map(|(bin, count)| format!("{}={count}", label(bin)))
                .collect();
            if !bins.is_empty() {
                text.field(&format!("db{index}_{name}"), bins.join(","));
            }
        }
    }
}

/// The least size of a bin: 0, 1, 2 … 512, 1K, 2K and so on.
fn label(bin: usize) -> String {
    let Some(exponent) = bin.checked_sub(1) else { return "0".to_string() };
    let unit = ["", "K", "M", "G", "T", "P", "E"][exponent / 10];
    format!("{}{unit}", 1 << (exponent % 10))
}

#[cfg(test)]
mod tests {
    use super::label;

    #[test]
    fn bins_are_labelled_by_powers_of_two() {
        let labels: Vec<String> = [0, 1, 2, 10, 11, 12, 21, 31, 47].into_iter().map(label).collect();
        assert_eq!(labels, ["0", "1", "2", "512", "1K", "2K", "1M", "1G", "64T"]);
    }
}
