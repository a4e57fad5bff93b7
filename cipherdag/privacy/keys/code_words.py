"""The words of a pairing code: short, common, and unlike one another by ear.

Chosen for this package: no two begin with the same four letters, differ in one letter alone, or
sound alike once voiced and unvoiced consonants, and vowels that are close, are taken for one. The
list is part of every code: a change to it, even of its order, gives every party another code.
"""

from __future__ import annotations

from typing import Final

WORDS: Final = tuple(
    """
    abbey acorn actor admiral adult agent alarm album alcove almond alpaca altar amber ample
    amulet anchor animal antler apricot apron arcade arch arena arrival arrow artist aspect
    atlas attic autumn avenue baboon backpack badge bagpipe baker ballad bamboo banana barber
    barley basin beacon beaver bedroom beetle begonia billiard bison blanket blazer blimp
    blossom blue board boiler bonfire border botany boxer brass bread bridge brocade brush
    bubble bucket buddy build bulldog bundle byline cabbage cabin cactus cadence cage camel
    canary canyon captain caramel cargo carpet castle catfish cavern cedar celery cello cereal
    chariot cheese chestnut chorus cicada cinema circle citrus clarinet cliff clock clown coast
    cobalt cobra cobweb cocoa coffee collar colony comet compass concert copper coral corner
    cottage cousin cowboy coyote cradle crane crayon creek crescent cricket crimson crystal
    cupboard curtain custard cutlery cyclone cymbal cypress daffodil daisy dancer darling dawn
    daybreak daylight derby dewdrop diamond diary diesel dingo dinner dogwood dolphin domino
    donkey doorway dormouse dragon drawer dream drink drizzle drum duet dumpling dynamo eagle
    earth easel echo eclipse eggshell elephant elixir emerald enamel engine envelope equator
    eyebrow falcon fancy farmer father fedora festive field fiesta firefly flag flood folder
    fondue forest fossil fountain freckle fresh frozen fruit galaxy garden garlic gazebo genius
    gentle geranium giant gift ginger giraffe glass glitter gnome goblet golden gondola gorge
    gravel griffin grotto guitar hamster handle harp harvest hatchet haven hawk heather helmet
    hemlock herald hero highway hill hinge history hobby holiday horizon hotel hunter hurdle
    hydrant icicle icing iguana illusion image inch indigo inkwell iris island ivory jackdaw
    jaguar jasper javelin jersey jewel jigsaw jungle junior kangaroo karate kelp keyhole kimono
    kingdom kitchen knight knock koala ladder lagoon lamb lantern laptop laundry lavender leaf
    lemon lentil leopard library lilac limerick liquid lizard lobster lotion lotus luggage lunch
    lynx machine magnet magpie mahogany maiden mammoth mandolin mango maple marmot mascot master
    mayor meadow melon mermaid metal minute mirror moment monarch morning motor muffin mulberry
    museum music myrtle napkin narwhal navy nectar nephew nickel nomad nutmeg nutshell oasis
    oatcake oatmeal oboe octave octopus office okra omelette onion opal opera oracle orange
    orbit orchid organ osprey ostrich oxygen oyster paint pancake panda parrot pavement peanut
    pelican pencil penguin pheasant phone picnic picture pigeon pioneer pirate pitcher pizza
    police popcorn poplar potato prairie prawn primrose protein pumpkin pyramid quarter quill
    quiver rabbit radar radio raft rainbow raisin ranch raptor reef reindeer rhino rhubarb
    rhythm ribbon ripple rooster rosemary round rugby runway rustle saddle safari saffron sailor
    salmon sandal sapphire saturn sauce sausage scallop scout screen scroll sculptor seagull
    season shadow shelter sheriff shrimp shuttle signal sketch skylark slipper smile snow soap
    soda sonata soprano spinach spoon spring spruce square squirrel stable stallion steam sugar
    sultan summer sundial sunset swallow swan sweater sword tadpole tapestry teacup thicket
    thimble thistle thread titan toboggan token tomato topaz torch tortoise towel trellis
    truffle trumpet tulip tundra turbine turnip tuxedo twig twinkle umbrella unicorn valiant
    valley vanilla vault velvet video vineyard vintage viola volcano voyage waiter walnut walrus
    wedding wheat whisper wigwam wildcat window wire wolf yacht yogurt zebra zenith zigzag
    zodiac zucchini
    """.split()  # noqa: SIM905 - a list of 512 quoted words cannot be read
)
"""512 words in alphabetical order: nine bits each."""
