//! Settings at the edges of what they can be.

use sablecat::{Env, ErrorKind, Journal};

/// Whoever would join an environment, or rescue it, believes no region whose log ring is larger.
#[test]
fn a_log_buffer_that_no_other_process_would_believe_is_refused() {
    for bytes in [0, 65_535, 65_537, 1 << 15, 1 << 33, 1 << 40, 1 << 62, 1 << 63, usize::MAX] {
        let builder = Env::builder().cache_size(0).log_buffer_size(bytes);
        assert_eq!(builder.clone().in_memory().unwrap_err().kind(), ErrorKind::Invalid, "{bytes}");
        assert_eq!(builder.data_store_in_memory().unwrap_err().kind(), ErrorKind::Invalid, "{bytes}");
    }
}

/// It was refused as a Data Store, which it is not.
#[test]
fn a_journal_in_memory_alone_is_refused_as_such() {
    let error = Env::builder().cache_size(0).journal(Journal::new()).in_memory().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("in memory alone"), "{error}");
}
