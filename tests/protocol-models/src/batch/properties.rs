//! What the properties of the batches' model ask of a state.

use super::{Answer, LINES, Line, Place, STOCK, State, lines_of};

impl State {
    pub(super) fn answered(&self, is: fn(Answer) -> bool) -> impl Iterator<Item = usize> {
        let places = self.places.iter().enumerate();
        places.filter_map(move |(line, place)| match place {
            Place::Answered(answer) if is(*answer) => Some(line),
            _ => None,
        })
    }

    pub(super) fn stock_holds(&self) -> bool {
        [0, 1].into_iter().all(|item| {
            let left = self.stock[usize::from(item)];
            let of_item = |line: &usize| LINES[*line].item == item;
            let sold: u8 = (0..LINES.len()).filter(of_item).map(|line| self.rows[line]).sum();
            left >= 0 && left.cast_unsigned() + sold == STOCK[usize::from(item)]
        })
    }

    pub(super) fn are_whole(&self) -> bool {
        (0..LINES.len()).all(|line| lines_of(line).all(|other| self.rows[other] == self.rows[line]))
    }

    pub(super) fn each_once(&self) -> bool {
        (0..LINES.len()).all(|line| {
            let Line { item, buyer, .. } = LINES[line];
            self.rows[line] <= 1 && self.bought(item, buyer) <= 1
        })
    }

    pub(super) fn refuses_for_a_reason(&self) -> bool {
        let is_reason = |line: usize| {
            let Line { item, buyer, .. } = LINES[line];
            self.stock[usize::from(item)] <= 0 || self.bought(item, buyer) > 0
        };
        self.answered(|answer| answer == Answer::Refused).all(|line| lines_of(line).any(is_reason))
    }

    pub(super) fn bought(&self, item: u8, buyer: u8) -> usize {
        let is_same = |line: &usize| (LINES[*line].item, LINES[*line].buyer) == (item, buyer);
        (0..LINES.len()).filter(is_same).map(|line| usize::from(self.rows[line])).sum()
    }
}
