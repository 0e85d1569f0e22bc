//! The errors of Redis 8, by commands that earn them.

use crate::session::Session;
use martlet_client::resp::Reply;
use martlet_sketch::bloom::BloomError;
use martlet_sketch::cms::CmsError;
use martlet_sketch::cuckoo::CuckooError;
use martlet_sketch::tdigest::TDigestError;
use martlet_sketch::topk::TopKError;

/// Sends each command; the session has no keys before.
pub fn run(session: &mut Session) {
    let cases: &[(&str, &dyn std::fmt::Display)] = &[
        ("BF.RESERVE w:b 1 10", &BloomError::ErrorRate),
        ("BF.RESERVE w:b 0.1 0", &BloomError::Capacity),
        ("BF.RESERVE w:b 0.1 1073741825", &BloomError::Capacity),
        ("BF.RESERVE w:b 0.1 5 EXPANSION 32769", &BloomError::Expansion),
        ("BF.RESERVE w:b 0.1 5 NONSCALING EXPANSION 2", &BloomError::NonScalingExpansion),
        ("BF.RESERVE w:b 0.1 1 NONSCALING", &"OK"),
        ("BF.ADD w:b 1", &"1"),
        ("BF.ADD w:b 2", &BloomError::Full),
        ("BF.LOADCHUNK w:b 0 a", &BloomError::BadData),
        ("BF.LOADCHUNK w:b 1 a", &BloomError::NoLink),
        ("BF.LOADCHUNK w:b 12 abcdefghij", &BloomError::ChunkTooBig),
        ("BF.LOADCHUNK w:none 1 a", &BloomError::BadData),
        ("CF.RESERVE w:c 3", &CuckooError::Capacity),
        ("CF.RESERVE w:c 1073741825", &CuckooError::Capacity),
        ("CF.RESERVE w:c 10 BUCKETSIZE 0", &CuckooError::BucketSize),
        ("CF.RESERVE w:c 10 MAXITERATIONS 65536", &CuckooError::MaxIterations),
        ("CF.RESERVE w:c 10 EXPANSION 32769", &CuckooError::Expansion),
        ("CF.RESERVE w:c 2 BUCKETSIZE 1 EXPANSION 0", &"OK"),
        ("CF.ADD w:c a", &"1"),
        ("CF.ADD w:c a", &CuckooError::Full),
        ("CF.LOADCHUNK w:none 1 a", &CuckooError::HeaderLength),
        ("CF.LOADCHUNK w:none 1 01234567890123456789012345678901234567", &CuckooError::Header),
        ("CF.LOADCHUNK w:c 9 abcdefgh", &CuckooError::Chunk),
        ("CMS.INITBYDIM w:m 0 1", &CmsError::Width),
        ("CMS.INITBYDIM w:m 1 0", &CmsError::Depth),
        ("CMS.INITBYDIM w:m 9223372036854775807 2", &CmsError::Dimensions),
        ("CMS.INITBYPROB w:m 1 0.1", &CmsError::Overestimation),
        ("CMS.INITBYPROB w:m 0.1 0", &CmsError::Probability),
        ("CMS.INITBYPROB w:m 0.1 0.9999999999", &CmsError::Dimensions),
        ("CMS.INITBYDIM w:m 2 2", &"OK"),
        ("CMS.INITBYDIM w:n 2 3", &"OK"),
        ("CMS.MERGE w:m 1 w:n", &CmsError::Unequal),
        ("CMS.MERGE w:m 1 w:m WEIGHTS 1", &"OK"),
        ("CMS.INCRBY w:m a 7", &"7"),
        ("CMS.MERGE w:m 1 w:m WEIGHTS -1", &CmsError::MergeOverflow),
        ("CMS.INCRBY w:m a 4294967295", &CmsError::IncrByOverflow),
        ("TOPK.RESERVE w:k 0", &TopKError::K),
        ("TOPK.RESERVE w:k 1 0 1 0.5", &TopKError::Width),
        ("TOPK.RESERVE w:k 1 1 0 0.5", &TopKError::Depth),
        ("TOPK.RESERVE w:k 1 1 1 0", &TopKError::Decay),
        ("TOPK.RESERVE w:k 1", &"OK"),
        ("TOPK.INCRBY w:k a 100001", &TopKError::Increment),
        ("TDIGEST.CREATE w:t COMPRESSION 0", &TDigestError::Compression),
        ("TDIGEST.CREATE w:t", &"OK"),
        ("TDIGEST.ADD w:t nan", &TDigestError::NotANumber),
        ("TDIGEST.ADD w:t inf", &TDigestError::Infinite),
        ("TDIGEST.QUANTILE w:t 1.1", &TDigestError::Quantile),
        ("TDIGEST.BYRANK w:t -1", &TDigestError::Rank),
        ("TDIGEST.TRIMMED_MEAN w:t 0.1 1.1", &TDigestError::Cut),
        ("TDIGEST.TRIMMED_MEAN w:t 0.5 0.5", &TDigestError::CutOrder),
    ];
    for (command, expected) in cases {
        let arguments: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        let text = expected.to_string();
        let reply = match text.parse::<i64>() {
            Ok(number) => Reply::Int(number),
            Err(_) if text == "OK" => Reply::Simple(text.into_bytes()),
            Err(_) => Reply::Error(text.into_bytes()),
        };
        // INCRBY answers in an array.
        let is_array = command.contains("INCRBY");
        session.reply(&arguments, if is_array { Reply::Array(vec![reply]) } else { reply });
    }
}
