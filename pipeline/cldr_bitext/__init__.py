"""Bitext and monolingual text out of the CLDR data that the `babel` package brings: small, true and never seen before.

A sentence is a hand-written frame (`phrasebook`) around slots (`slots`) whose values CLDR knows how to write in every
language: dates, times, numbers with units, amounts of money, countries, languages, relative times, lists. Word order,
number formats and names differ between the languages, so that frames, names and numbers must all be learned.

What is seen where (`split` is the rule, tests hold it to it):

- A COMBINATION is a frame with its slot values. No two sentences of all the files share one, whatever their language,
  and no two share a text (compared without case, punctuation and spacing). So a test sentence is in no training file,
  on neither side, though its frame and each of its values may be.
- NAMES are countries, languages, currencies, months and units. A share of each group, drawn by the seed (60 % unless
  told otherwise), may stand in the bitext. All may stand in both monolingual files, which are not translations of each
  other.
- Weekdays, symbols of money, times of day and bare numbers are held out of nothing: they may stand everywhere.
- Validation and test hold two kinds of pairs, half of each unless told otherwise. Of a pair with the tag `names seen
  in bitext` every name stands in a pair of the bitext; a pair with the tag `only in monolingual` has at least one name
  that stands in no pair of the bitext, but in a sentence of the target language's monolingual file, from where
  back-translation or pretraining must take it. Tags come from what the files hold, not from what was planned.

Imports neither Beam nor torch.
"""
