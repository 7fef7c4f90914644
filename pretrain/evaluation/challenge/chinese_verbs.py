"""Chinese phenomena around the verb: aspect, negation, possible results, 把 and 被. Must not import torch.

The language of the templates is that of `templates.py`, with spaces between words; how each group balances itself is
said in `chinese.py`.
"""

from pretrain.evaluation.challenge.templates import templates_of

# 过 has been done before, 着 is going on, 了 is done or about to change.
ASPECT = templates_of(
    "aspect",
    never=(
        "{name} 从来 没 {verb_object.verb} [过/着] {verb_object.object}。",
        "{name} 正 {verb_object.verb} [着/过] {verb_object.object} 呢。",
    ),
    soon=(
        "{name} 还 没 {verb_object.verb} [过/了] {verb_object.object}。",
        "{name} 快要 {leave} [了/过]。",
    ),
    afternoon=(
        "{name} 昨天 {verb_object.verb} [了/着] 一 下午 {verb_object.object}。",
        "{name} 现在 正 {verb_object.verb} [着/了] {verb_object.object} 呢。",
    ),
    chat=(
        "{name} 以前 {verb_object.verb} [过/着] 两 次 {verb_object.object}。",
        "{name} 喜欢 {verb_object.verb} [着/过] {verb_object.object} 聊天。",
    ),
    already=(
        "{person} 已经 {leave} [了/着]。",
        "{person} 正 {verb_object.verb} [着/了] {verb_object.object} 呢，别 打扰 他。",
    ),
    childhood=(
        "{name} 小 时候 没 {verb_object.verb} [过/了] {verb_object.object}。",
        "{person} 就要 {leave} [了/过]。",
    ),
    times=(
        "{person} {verb_object.verb} [过/着] 三 次 {verb_object.object}。",
        "{person} 还 在 那里 {verb_object.verb} [着/过] {verb_object.object} 呢。",
    ),
    too=(
        "{person} 没有 {verb_object.verb} [过/了] {verb_object.object}。",
        "{person} 太 {trait} [了/过]。",
    ),
    question=(
        "你 {verb_object.verb} [过/着] {verb_object.object} 没有？",
        "你 怎么 还 {verb_object.verb} [着/过] {verb_object.object} 呢？",
    ),
    until=(
        "等 {name} {leave} [了/着]，我们 再 走。",
        "{name} 正 忙 [着/了] {verb_object.verb} {verb_object.object} 呢。",
    ),
)

# 没 denies what has happened (and 有), 不 what is, will be or should be.
NEGATION = templates_of(
    "negation",
    place=("{name} [没/不] 去 过 {place}。", "{name} 明天 [不/没] 去 {place}。"),
    have=("{name} [没/不] 有 {thing}。", "{name} [不/没] 是 {person}。"),
    week=(
        "{person} 从来 [没/不] {verb_object.verb} 过 {verb_object.object}。",
        "{person} 下 星期 [不/没] {verb_object.verb} {verb_object.object}。",
    ),
    leave=("昨天 {name} 还 [没/不] {leave} 呢。", "明天 {name} [不/没] 会 {leave}。"),
    lose=("{name} 的 {thing} [没/不] 丢 过。", "{name} [不/没] 应该 丢 {thing}。"),
    question=("你 去 过 {place} [没/不] 有？", "你 明天 去 [不/没] 去 {place}？"),
    know=("我 [没/不] 听说 过 {name}。", "我 [不/没] 知道 {name} 在 {place}。"),
    passive=("{thing} [没/不] 被 {dispose} 过。", "{thing} [不/没] 应该 被 {dispose}。"),
    so=("{person} 以前 [没/不] 这么 {trait} 过。", "{person} 以后 [不/没] 会 这么 {trait}。"),
    finish=(
        "{name} 昨天 [没/不] {verb_object.verb} 完 {verb_object.object}。",
        "{name} 认为 自己 [不/没] 是 {person}。",
    ),
)

# Between verb and result stands 不 (cannot), before both 没 (did not).
POTENTIAL = templates_of(
    "potential",
    however=("{name} 怎么 也 {achieve.verb} [不/没] {achieve.result}。", "{name} 还 [没/不] {achieve.whole}。"),
    fear=("{person} 恐怕 {achieve.verb} [不/没] {achieve.result}。", "{person} 昨天 [没/不] {achieve.whole}。"),
    without=(
        "要是 没有 {person}，{name} 就 {achieve.verb} [不/没] {achieve.result}。",
        "因为 {person} 不 在，{name} 昨天 [没/不] {achieve.whole}。",
    ),
    now=("我 现在 {achieve.verb} [不/没] {achieve.result}。", "我 刚才 [没/不] {achieve.whole}。"),
    what_then=("{achieve.verb} [不/没] {achieve.result} 怎么 办？", "上 次 为什么 [没/不] {achieve.whole}？"),
    says=(
        "{name} 说 他 {achieve.verb} [不/没] {achieve.result}。",
        "{name} 说 他 上 次 [没/不] {achieve.whole}。",
    ),
    alone=(
        "一 个 人 肯定 {achieve.verb} [不/没] {achieve.result}。",
        "{person} 上 星期 [没/不] {achieve.whole}。",
    ),
    ever=(
        "{name} 永远 {achieve.verb} [不/没] {achieve.result}。",
        "{name} 从来 [没/不] {achieve.whole} 过。",
    ),
    question=(
        "你 {achieve.verb} 得 {achieve.result} {achieve.verb} [不/没] {achieve.result}？",
        "你 {achieve.whole} 了 [没/不] 有？",
    ),
    busy=(
        "{person} 太 忙，所以 总是 {achieve.verb} [不/没] {achieve.result}。",
        "{person} 太 忙，所以 昨天 [没/不] {achieve.whole}。",
    ),
)

# 把 comes after who does it, 被 after what it is done to.
BA_BEI = templates_of(
    "ba_bei",
    plain=("{person} [把/被] {thing} {dispose} 了。", "{thing} [被/把] {person} {dispose} 了。"),
    yesterday=(
        "昨天 {name} [把/被] {thing} {dispose} 了。",
        "昨天 {thing} [被/把] {name} {dispose} 了。",
    ),
    negated=("{person} 没有 [把/被] {thing} {dispose}。", "{thing} 没有 [被/把] {person} {dispose}。"),
    who=("是 谁 [把/被] {thing} {dispose} 了？", "{thing} 是 [被/把] 谁 {dispose} 的？"),
    want=("{name} 可能 会 [把/被] {thing} {dispose}。", "{thing} 会 [被/把] {name} {dispose}。"),
    someone=("有 人 [把/被] {thing} {dispose} 了。", "{thing} 已经 [被/把] {dispose} 了。"),
    mine=("{person} 差点 [把/被] {thing} {dispose}。", "我 的 {thing} [被/把] {person} {dispose} 了。"),
    careful=("别 [把/被] 我 的 {thing} {dispose}。", "我 的 {thing} 差点 [被/把] 人 {dispose}。"),
    why=("{name} 为什么 [把/被] {thing} {dispose} 了？", "{thing} 为什么 [被/把] {name} {dispose} 了？"),
    hear=("听说 {name} 刚 [把/被] {thing} {dispose} 了。", "听说 {thing} 刚 [被/把] {name} {dispose} 了。"),
)
