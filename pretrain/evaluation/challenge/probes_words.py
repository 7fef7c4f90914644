"""Words that the check lists of all kinds of heads share. Must not import torch."""

from collections.abc import Mapping

from pretrain.evaluation.challenge.probes import plain
from pretrain.evaluation.challenge.templates import Word

SHARED: Mapping[str, tuple[Word, ...]] = {
    "name": plain(
        "Anna, Omar, Julia, Peter, Maria, David, Sofia, Thomas, Laura, Daniel, Emma, Ali, Sarah, Marco, Clara, Victor, "
        "Nina, Hassan, Helen, Felix, Irene, Paul, Alice, Bruno, Fatima, George, Olga, Simon, Leila, Martin"
    ),
    "place": plain(
        "London, Paris, Berlin, Madrid, Rome, Vienna, Lisbon, Dublin, Oslo, Warsaw, Prague, Athens, Cairo, Lagos, "
        "Nairobi, Delhi, Tokyo, Seoul, Sydney, Toronto, Boston, Chicago, Dallas, Denver, Lima, Quito, Havana, Geneva, "
        "Munich, Milan"
    ),
    "day": plain("Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday"),
    "job": plain(
        "nurse, teacher, doctor, lawyer, farmer, baker, painter, singer, writer, judge, soldier, tailor, waiter, "
        "driver, pilot, actor, cook, editor, engineer, architect, dentist, plumber, banker, gardener, librarian, "
        "mechanic, surgeon, student, guard, clerk"
    ),
}
