//! Cycles in graphs of dependencies.

/// A kind of dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Wrote after.
    Ww,
    /// Read what it wrote.
    Wr,
    /// Read what was before it wrote.
    Rw,
    /// Began after it had ended.
    Rt,
}

/// A graph: for each node where its edges lead, and of which kind they are.
pub(super) type Graph = Vec<Vec<(usize, Kind)>>;

/// A cycle, as its nodes with the kind of the edge that leaves each. With `rw_in_a_row` off only cycles
/// without two rw edges one after the other count: those are what snapshot isolation forbids (Cerone, Gotsman
/// 2016).
pub(super) fn find(graph: &Graph, rw_in_a_row: bool) -> Option<Vec<(usize, Kind)>> {
    // A node's second half is where one is after an rw edge, when that matters. A cycle of halves is a cycle
    // of nodes with the property all around, its two ends included.
    let halves = graph.len() * 2;
    let next = |half: usize| {
        let (node, after_rw) = (half / 2, half % 2 == 1);
        let allowed = move |kind: Kind| rw_in_a_row || !(after_rw && kind == Kind::Rw);
        let target = move |to: usize, kind: Kind| to * 2 + usize::from(!rw_in_a_row && kind == Kind::Rw);
        graph[node]
            .iter()
            .filter(move |(_, kind)| allowed(*kind))
            .map(move |&(to, kind)| (target(to, kind), kind))
    };
    // Depth first, without recursion: 0 unseen, 1 on the path, 2 done.
    let mut colour = vec![0u8; halves];
    for start in 0..halves {
        if colour[start] != 0 {
            continue;
        }
        let mut path: Vec<(usize, usize)> = vec![(start, 0)];
        colour[start] = 1;
        while let Some((half, edge)) = path.last().copied() {
            let Some((to, _)) = next(half).nth(edge) else {
                colour[half] = 2;
                path.pop();
                continue;
            };
            if let Some(top) = path.last_mut() {
                top.1 += 1;
            }
            match colour[to] {
                0 => {
                    colour[to] = 1;
                    path.push((to, 0));
                }
                1 => {
                    let from = path.iter().position(|(on, _)| *on == to)?;
                    let kind = |&(half, edge): &(usize, usize)| {
                        next(half).nth(edge - 1).map(|(_, kind)| (half / 2, kind))
                    };
                    return path[from..].iter().map(kind).collect();
                }
                _ => {}
            }
        }
    }
    None
}
