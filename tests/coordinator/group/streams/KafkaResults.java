/**
 * What Kafka's own classes answer for the cases of random_cases.py: a case a line as JSON, and a result a line.
 *
 * Started by test_against_kafka as a single source file, with the jars of Kafka 4.4.
 */

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.StreamsGroupHeartbeatRequestDataJsonConverter;
import org.apache.kafka.common.message.StreamsGroupHeartbeatResponseData;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.streams.StreamsGroup;
import org.apache.kafka.coordinator.group.streams.StreamsGroupMember;
import org.apache.kafka.coordinator.group.streams.StreamsTopology;
import org.apache.kafka.coordinator.group.streams.TasksTupleWithEpochs;
import org.apache.kafka.coordinator.group.streams.TopologyMetadata;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentConfigsImpl;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberMetadataAndStateImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredInternalTopic;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredSubtopology;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredTopology;
import org.apache.kafka.coordinator.group.streams.topics.EndpointToPartitionsManager;
import org.apache.kafka.coordinator.group.streams.topics.InternalTopicManager;
import org.apache.kafka.timeline.SnapshotRegistry;
import org.slf4j.LoggerFactory;

class KafkaResults {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] given) throws Exception {
        BufferedReader cases = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = cases.readLine(); line != null; line = cases.readLine()) {
            JsonNode one = JSON.readTree(line);
            Object result = switch (one.get("kind").asText()) {
                case "assign" -> assigned(one);
                case "configure" -> configured(one);
                default -> order(one);
            };
            System.out.println(JSON.writeValueAsString(result));
        }
    }

    private static List<String> order(JsonNode one) {
        HashMap<String, Integer> map = new HashMap<>(one.get("capacity").asInt());
        for (JsonNode key : one.get("keys")) {
            if (one.get("by").asText().equals("put")) {
                map.put(key.asText(), 0);
            } else {
                map.computeIfAbsent(key.asText(), each -> 0);
            }
        }
        return new ArrayList<>(map.keySet());
    }

    private static Map<String, Set<Integer>> tasks(JsonNode bySubtopology) {
        Map<String, Set<Integer>> found = new HashMap<>();
        bySubtopology.properties().forEach(each -> {
            Set<Integer> partitions = new HashSet<>();
            each.getValue().forEach(partition -> partitions.add(partition.asInt()));
            found.put(each.getKey(), partitions);
        });
        return found;
    }

    private static Map<String, Map<Integer, Long>> offsets(JsonNode bySubtopology) {
        Map<String, Map<Integer, Long>> found = new HashMap<>();
        bySubtopology.properties().forEach(each -> {
            Map<Integer, Long> offsets = new HashMap<>();
            each.getValue().properties().forEach(
                one -> offsets.put(Integer.parseInt(one.getKey()), one.getValue().asLong())
            );
            found.put(each.getKey(), offsets);
        });
        return found;
    }

    private static Object assigned(JsonNode one) {
        Map<String, MemberMetadataAndStateImpl> members = new HashMap<>();
        for (JsonNode member : one.get("members")) {
            members.put(member.get("id").asText(), new MemberMetadataAndStateImpl(
                Optional.empty(), Optional.empty(), member.get("process").asText(), Map.of(),
                tasks(member.get("active")), tasks(member.get("standby")), Map.of(),
                offsets(member.get("offsets")), Map.of()
            ));
        }
        TreeMap<String, ConfiguredSubtopology> subtopologies = new TreeMap<>();
        for (JsonNode each : one.get("subtopologies")) {
            Map<String, ConfiguredInternalTopic> changelogs = new HashMap<>();
            if (each.get(2).asBoolean()) {
                changelogs.put("c", new ConfiguredInternalTopic("c", 1, Optional.empty(), Map.of()));
            }
            subtopologies.put(each.get(0).asText(), new ConfiguredSubtopology(
                each.get(1).asInt(), Set.of("s"), Map.of(), Set.of(), changelogs
            ));
        }
        Map<String, Object> found = new TreeMap<>();
        new StickyTaskAssignor().assign(
            new GroupSpecImpl(members, AssignmentConfigsImpl.DEFAULT.withNumStandbyReplicas(one.get("standbys").asInt())),
            new TopologyMetadata(CoordinatorMetadataImage.EMPTY, subtopologies)
        ).members().forEach((id, member) -> found.put(id, List.of(
            sorted(member.activeTasks()), sorted(member.standbyTasks())
        )));
        return found;
    }

    private static Map<String, Set<Integer>> sorted(Map<String, Set<Integer>> tasks) {
        Map<String, Set<Integer>> found = new TreeMap<>();
        tasks.forEach((id, partitions) -> found.put(id, new TreeSet<>(partitions)));
        return found;
    }

    private static Object configured(JsonNode one) {
        Image image = new Image(one.get("topics"));
        Map<String, Object> found = new LinkedHashMap<>();
        ConfiguredTopology topology;
        try {
            topology = InternalTopicManager.configureTopics(
                LoggerFactory.getLogger(KafkaResults.class), "g", "m", 7,
                StreamsTopology.fromHeartbeatRequest(
                    StreamsGroupHeartbeatRequestDataJsonConverter.TopologyJsonConverter.read(one.get("topology"), (short) 1)
                ),
                image, Time.SYSTEM
            );
        } catch (RuntimeException error) {
            found.put("thrown", error.getClass().getSimpleName());
            found.put("message", error.getMessage());
            return found;
        }
        found.put("status", topology.topicConfigurationException().map(each -> (int) each.status().code()).orElse(null));
        found.put("detail", topology.topicConfigurationException().map(Throwable::getMessage).orElse(null));
        found.put("subtopologies", topology.subtopologies().map(KafkaResults::plain).orElse(null));
        List<Object> create = new ArrayList<>();
        topology.internalTopicsToBeCreated().values().forEach(topic -> {
            Map<String, String> configs = new TreeMap<>();
            topic.configs().forEach(config -> configs.put(config.name(), config.value()));
            create.add(List.of(topic.name(), topic.numPartitions(), (int) topic.replicationFactor(), configs));
        });
        found.put("create", create);
        if (topology.isReady()) {
            found.put("endpoint", endpoint(one, topology, image));
        }
        return found;
    }

    private static List<Object> plain(Map<String, ConfiguredSubtopology> subtopologies) {
        List<Object> found = new ArrayList<>();
        subtopologies.forEach((id, each) -> found.add(List.of(
            id, each.numberOfTasks(), new TreeSet<>(each.sourceTopics()), new TreeSet<>(each.repartitionSinkTopics()),
            plain(each.repartitionSourceTopics().values()), plain(each.stateChangelogTopics().values())
        )));
        return found;
    }

    private static Collection<Object> plain(Collection<ConfiguredInternalTopic> topics) {
        Map<String, Object> found = new TreeMap<>();
        topics.forEach(each -> found.put(each.name(), List.of(
            each.name(), each.numberOfPartitions(), (int) each.replicationFactor().orElse((short) 0),
            new TreeMap<>(each.topicConfigs())
        )));
        return found.values();
    }

    private static Object endpoint(JsonNode one, ConfiguredTopology topology, CoordinatorMetadataImage image) {
        StreamsGroup group = new StreamsGroup(new LogContext(), new SnapshotRegistry(new LogContext()), "g");
        group.setConfiguredTopology(topology);
        Map<String, Map<Integer, Integer>> active = new HashMap<>();
        tasks(one.get("active")).forEach((id, partitions) -> {
            Map<Integer, Integer> epochs = new HashMap<>();
            partitions.forEach(partition -> epochs.put(partition, 1));
            active.put(id, epochs);
        });
        StreamsGroupMember member = new StreamsGroupMember.Builder("m")
            .setAssignedTasks(new TasksTupleWithEpochs(active, tasks(one.get("standby")), Map.of()))
            .build();
        StreamsGroupHeartbeatResponseData.EndpointToPartitions found = EndpointToPartitionsManager.endpointToPartitions(
            member, new StreamsGroupHeartbeatResponseData.Endpoint(), group, image
        );
        return List.of(plain(found.activePartitions()), plain(found.standbyPartitions()));
    }

    /** Sorted: Kafka's own order is another in each Java machine. */
    private static Object plain(List<StreamsGroupHeartbeatResponseData.TopicPartition> partitions) {
        TreeSet<String> found = new TreeSet<>();
        partitions.forEach(each -> found.add(each.topic() + " " + each.partitions()));
        return found;
    }

    private static class Image implements CoordinatorMetadataImage {
        private final Map<String, TopicMetadata> topics = new HashMap<>();

        Image(JsonNode counts) {
            counts.properties().forEach(each -> topics.put(
                each.getKey(), new Metadata(each.getKey(), Uuid.randomUuid(), each.getValue().asInt())
            ));
        }

        @Override
        public Set<Uuid> topicIds() {
            throw new UnsupportedOperationException();
        }

        @Override
        public Set<String> topicNames() {
            return topics.keySet();
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(String name) {
            return Optional.ofNullable(topics.get(name));
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(Uuid id) {
            throw new UnsupportedOperationException();
        }

        @Override
        public CoordinatorMetadataDelta emptyDelta() {
            throw new UnsupportedOperationException();
        }

        @Override
        public long version() {
            return 1;
        }

        @Override
        public boolean isEmpty() {
            return topics.isEmpty();
        }
    }

    private record Metadata(String name, Uuid id, int partitionCount) implements CoordinatorMetadataImage.TopicMetadata {
        @Override
        public List<String> partitionRacks(int partition) {
            return List.of();
        }
    }
}
