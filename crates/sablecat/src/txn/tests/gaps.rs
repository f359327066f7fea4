//! The bytes of pages that mean nothing: no version hands them to the next one, and no block has them.

use super::*;
use crate::access::PAGE_KINDS;
use crate::pages::volume::MapFinding;

/// Whether any byte of the gaps of the current versions is not zero.
fn is_anything_in_frames(store: &Store) -> bool {
    let pages = &store.kernel.pages;
    (1..pages.page_ids().high_water()).any(|page| {
        let frame = pages.region.entry(PageId(page as u32)).word().frame();
        // SAFETY: nobody else is at work.
        let bytes = unsafe { pages.region.page(frame) };
        frame != FrameId::NONE && bytes[(PAGE_KINDS.gap)(bytes)].iter().any(|&byte| byte != 0)
    })
}

/// What a frame held before may be another database's.
#[test]
fn blocks_have_zeros_where_frames_have_what_was_in_them_before() {
    let makes: [fn(Store) -> Store; 2] = [|store| store, |store| store.made_hashed(3)];
    for make in makes {
        let store = make(Store::new(300, 8, Some(volume(1))));
        let change = |stamp: u8| (0..200u64).for_each(|n| store.put(&n.to_be_bytes(), &[stamp; 40]).unwrap());
        change(1);
        change(2);
        assert!(is_anything_in_frames(&store), "nothing was left in the way of this test");
        store.checkpoint().unwrap();
        let pages = &store.kernel.pages;
        let volume = pages.volume().unwrap();
        let (mut bytes, mut leaves) = (vec![0; volume.block_size()], 0);
        let mut look = |found| {
            if let MapFinding::Page(page, block) = found {
                pages.check_stored(volume, page, block, &mut bytes)?;
                let page = &bytes[..volume.page_size()];
                let gap = (PAGE_KINDS.gap)(page);
                leaves += usize::from(!gap.is_empty());
                assert!(page[gap.clone()].iter().all(|&byte| byte == 0), "{gap:?} of {page:x?}");
            }
            Ok(())
        };
        volume.walk(0..u64::MAX, &mut look).unwrap();
        assert!(leaves > 20, "{leaves} pages with a gap");
        let records = store.verified().0;
        assert!(records.len() == 200 && records.iter().all(|(_, value)| value[..] == [2; 40]));
    }
}
