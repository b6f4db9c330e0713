//! A split multi-get: which key went to which server, and the values that came back, until they are merged in the order of
//! the request.

use weir_protocol::ValueSpan;

/// Parts of one multi-get. Kept and used again, so that a split costs no allocation in steady state.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    /// For each key of the request the part that asks for it.
    owners: Vec<u32>,
    parts: Vec<GatherPart>,
    /// How many of `parts` belong to this request; the others only keep their memory.
    used: usize,
}

#[derive(Debug, Default)]
struct GatherPart {
    server: usize,
    /// The blocks of the values, one after the other.
    bytes: Vec<u8>,
    /// For each value its position among the keys of the part, and where its block ends in `bytes`.
    blocks: Vec<(u32, usize)>,
}

impl Gather {
    /// Forgets the last request.
    pub(crate) fn clear(&mut self) {
        self.owners.clear();
        for part in &mut self.parts[..self.used] {
            part.bytes.clear();
            part.blocks.clear();
        }
        self.used = 0;
    }

    /// How much memory it keeps, in bytes.
    pub(crate) fn capacity(&self) -> usize {
        let parts = self.parts.iter();
        let kept =
            parts.map(|part| part.bytes.capacity() + part.blocks.capacity() * size_of::<(u32, usize)>());
        kept.sum::<usize>() + self.owners.capacity() * size_of::<u32>()
    }

    /// The next key of the request goes to `server`.
    pub(crate) fn assign(&mut self, server: usize) {
        let known = self.parts[..self.used].iter().position(|part| part.server == server);
        let index = known.unwrap_or_else(|| self.add_part(server));
        self.owners.push(u32::try_from(index).expect("there are not more parts than servers"));
    }

    /// For each key of the request the part that asks for it.
    pub(crate) fn owners(&self) -> impl Iterator<Item = usize> {
        self.owners.iter().map(|&part| part as usize)
    }

    fn add_part(&mut self, server: usize) -> usize {
        if self.used == self.parts.len() {
            self.parts.push(GatherPart::default());
        }
        self.parts[self.used].server = server;
        self.used += 1;
        self.used - 1
    }

    pub(crate) fn part_count(&self) -> usize {
        self.used
    }

    pub(crate) fn server_of(&self, part: usize) -> usize {
        self.parts[part].server
    }

    /// Keeps the values of one part's reply. `ordinals` are their positions among the keys of the part.
    pub(crate) fn store(&mut self, part: u32, reply: &[u8], values: &[ValueSpan], ordinals: &[u32]) {
        let part = &mut self.parts[part as usize];
        for (value, &ordinal) in values.iter().zip(ordinals) {
            part.bytes.extend_from_slice(&reply[value.block.clone()]);
            part.blocks.push((ordinal, part.bytes.len()));
        }
    }

    /// Length of the merged reply.
    pub(crate) fn len(&self) -> usize {
        self.parts[..self.used].iter().map(|part| part.bytes.len()).sum::<usize>() + b"END\r\n".len()
    }

    /// Appends the whole reply: the values in the order of the keys in the request, and `END`.
    pub(crate) fn merge_into(&self, out: &mut Vec<u8>) {
        let mut cursors = vec![Cursor::default(); self.used];
        for &owner in &self.owners {
            let (part, cursor) = (&self.parts[owner as usize], &mut cursors[owner as usize]);
            let next = part.blocks.get(cursor.block);
            if let Some(&(_, end)) = next.filter(|(ordinal, _)| *ordinal == cursor.key) {
                out.extend_from_slice(&part.bytes[cursor.start..end]);
                cursor.start = end;
                cursor.block += 1;
            }
            cursor.key += 1;
        }
        out.extend_from_slice(b"END\r\n");
    }
}

/// How far the merge is in one part.
#[derive(Clone, Default)]
struct Cursor {
    key: u32,
    block: usize,
    start: usize,
}
